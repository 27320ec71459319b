"""What a model is made of, found out without loading it."""
