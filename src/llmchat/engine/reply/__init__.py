"""From messages to tokens to text."""
