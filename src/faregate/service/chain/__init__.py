"""Real payments: the backends that settle on a chain, and how they reach it.

They implement the interface `Payments` of `rules/payments.py`.
"""
