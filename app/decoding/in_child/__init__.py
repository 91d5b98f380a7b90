"""The decoder in a child process of this one."""
