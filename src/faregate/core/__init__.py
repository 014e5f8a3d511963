"""The payment flow, pure: no I/O, framework, clock or randomness."""
