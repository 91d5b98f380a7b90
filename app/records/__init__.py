"""The library of runs: what is kept, for whom, and the recorded examples."""
