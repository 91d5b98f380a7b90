"""From a file of the course to a lesson, its expressions and its words."""
