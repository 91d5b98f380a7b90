"""What is measured with the decoder: machines, sweeps, finished records, other engines' reports, best settings."""
