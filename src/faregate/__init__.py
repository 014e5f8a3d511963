"""Charge for an HTTP resource."""
