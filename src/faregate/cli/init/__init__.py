"""`faregate init`: write the smallest application that sells something, and a test that buys it."""
