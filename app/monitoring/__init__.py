"""What the server tells its operator: figures and a log."""
