"""A real EVM on this machine, with USDC and EURC at their real addresses, for the demo and the tests.

`start_chain` runs anvil and gives a `LocalChain`; `ChainPayer` signs. It stands in `examples` because the
demo runs without the tests; `tests/support/chain.py` adds what is pytest's.
"""
