"""Forms that are JSON: answers of servers, streams of events, reports of libraries and benchmarks."""
