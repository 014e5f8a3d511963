"""Sweeps and holds: finish or inspect unfinished payments, from code and from commands."""
