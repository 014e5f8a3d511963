"""The rules of the Merchant API, pure, and a store for them in memory.

Two programs run these rules: the emulator (`faregate.emulator`), in memory, and the service to deploy
(`faregate.service`), on SQL. The client side of the API is in `faregate.merchant`.
"""
