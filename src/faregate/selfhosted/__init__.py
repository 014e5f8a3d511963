"""The merchant service to run: one process or several on one database, settling real payments."""
