"""The child process: loads a plan, generates, reports. The only part that knows torch."""
