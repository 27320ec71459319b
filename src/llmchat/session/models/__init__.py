"""Models on this disk: which there are, whether they are whole, what they are made of."""
