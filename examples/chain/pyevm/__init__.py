"""An EVM in Python, which stands in for anvil where npm is missing."""
