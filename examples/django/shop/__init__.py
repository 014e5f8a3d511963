"""A seller with Django."""
