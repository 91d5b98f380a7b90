"""Analysis of a finished record: why a lane is fast or slow, and what another rule or machine would change."""
