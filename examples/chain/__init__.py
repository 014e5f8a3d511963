"""A real EVM on this machine, with USDC and EURC at their real addresses, for the demo and the tests.

`start_chain` runs anvil and gives a `LocalChain`; `start_any_chain` runs py-evm where anvil cannot be had.
`ChainPayer` signs. All this stands in `examples` because the demo runs without the tests;
`tests/support/chain.py` adds what is pytest's.
"""
