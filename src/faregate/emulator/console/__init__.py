"""The files of the console: see `control/page.py`."""
