"""What a finished record tells: why a lane is fast or slow, what another rule or machine would have made of it."""
