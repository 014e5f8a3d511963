"""Build the documentation site from docs/, README.md and the docstrings: see `scripts/docs`."""
