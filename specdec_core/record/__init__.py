"""The record of a decode: its schema, how it is read, checked and counted."""
