"""The comparison page's parts: its lanes and their address, their forms, and what is shown below the race."""
