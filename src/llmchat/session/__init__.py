"""The parent side of the engine: client, controller, probe, hub, settings, history. Knows no textual."""
