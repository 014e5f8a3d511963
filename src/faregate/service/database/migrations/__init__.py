"""Alembic's migrations of the database. `upgrade.py` runs them."""
