"""The Hugging Face hub: who is logged in, what a model consists of, and its files on this disk.

Everything here blocks, and raises ModelError, AccessError, OfflineError, StorageError or Cancelled. A token is
never part of a message, a log or a representation.
"""

from llmchat.session.hub.account import account, login, logout
from llmchat.session.hub.models import download, fetch_config, weights_size

__all__ = ["account", "download", "fetch_config", "login", "logout", "weights_size"]
