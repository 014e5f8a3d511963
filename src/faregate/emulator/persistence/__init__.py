"""The emulator's state as a JSON document: its schema, writing it, loading it."""
