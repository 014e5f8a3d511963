"""`faregate probe`: the same checks against any base URL and key, and what holds there."""
