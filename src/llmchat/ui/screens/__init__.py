"""Full screens and dialogs: a .py and the .tcss beside it."""
