"""Screens and widgets. The only part that knows textual and rich."""
