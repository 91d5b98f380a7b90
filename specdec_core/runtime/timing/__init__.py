"""How long passes of each width take on this machine."""
