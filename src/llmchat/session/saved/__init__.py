"""What outlives a session: chats, settings, exports."""
