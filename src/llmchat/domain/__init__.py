"""Pure data and arithmetic: no I/O, no clock, no torch, no textual."""
