"""The comparison page's parts: its lanes and their address, their forms, and what stands below the race."""
