"""What every part stands on: errors, validated options, classes by name, keyed random numbers, paths, lazy torch."""
