"""The checks, in the order in which they are made. An id is for ever: scripts name them."""
