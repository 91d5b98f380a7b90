"""The decode loop (`decode`), several lanes on one prompt (`race`), and what is checked before (`plan`)."""
