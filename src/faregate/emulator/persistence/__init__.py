"""The state of an emulator as a JSON document: its schema, writing, reading, and a file that keeps it."""
