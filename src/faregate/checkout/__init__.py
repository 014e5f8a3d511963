"""Code shared by the adapters: the checkout of one request, buffering, path rules, scopes, environs."""
