"""The machine: what it has, how fast it is, what lies in its memory now."""
