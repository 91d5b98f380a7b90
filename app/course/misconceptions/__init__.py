"""The inventory of misconceptions, before the course and after it."""
