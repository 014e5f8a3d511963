"""The operations of the Merchant API, one module for each group of endpoints."""
