"""`faregate pay`: a payer on the command line, with the official x402 client (extra `pay`)."""
