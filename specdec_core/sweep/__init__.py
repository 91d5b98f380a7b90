"""Many prompts through several lanes: the cases, the runs, the file, and what it adds up to."""
