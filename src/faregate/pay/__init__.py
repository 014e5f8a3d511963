"""`faregate pay`: buy from any seller that speaks x402, with the official x402 client."""
