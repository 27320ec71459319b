"""One runner per mechanism that can execute a plan."""
