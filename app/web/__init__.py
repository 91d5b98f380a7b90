"""What the server serves besides the pages: event streams, traces, headers, the health check."""
