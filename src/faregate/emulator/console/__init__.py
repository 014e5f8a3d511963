"""The web console of the emulator: its files, and the endpoints that serve them and its live data."""
