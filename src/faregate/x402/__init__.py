"""x402 version 2: headers, tokens, instructions and signatures, shared by payers and the service. Pure."""
