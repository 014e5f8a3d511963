"""Stock x402 clients against a seller that settles slowly, loses answers and is killed."""
