"""The decode loop (`decode`), several lanes on one prompt (`race`), and the checks before either (`plan`)."""
