"""llmchat: chat in the terminal with a model that does not fit on one GPU."""

__version__ = "0.1.0"
