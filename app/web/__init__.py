"""What the server answers beside the pages: event streams, traces, headers, the health check."""
