"""What is done with a finished record: checked, searched for loops, laid out in tables, shown as a page."""
