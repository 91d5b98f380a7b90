"""Runs of a room: the class's, and each student's own."""
