"""Sellers that are killed at every point of a sale, and what is left of the sale afterwards."""
