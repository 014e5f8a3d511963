"""What the adapters share: the checkout of one request, buffering, path rules, scope and environ parsing."""
