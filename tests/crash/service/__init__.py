"""Kill the self-hosted service while it settles on a real chain, and compare its books with that chain."""
