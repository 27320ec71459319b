"""The engine as the parent sees it: one process, its pipe, its log, its death."""
