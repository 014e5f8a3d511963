"""x402 version 2: headers, tokens, signatures and verification, shared by payers and the service. Pure."""
