"""The GPUs, the memory that is held, and how fast this machine is."""
