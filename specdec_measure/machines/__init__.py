"""What a pass costs on a machine: recorded profiles, and cards modelled as rooflines."""
