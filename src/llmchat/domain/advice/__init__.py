"""What is made of the plans: their order, and everything that is said about them in words."""
