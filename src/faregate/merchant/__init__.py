"""The Merchant API seen from its client: types, operations, transports, and the client itself.

The service uses the types, too. Its rules are in `faregate.rules`, and the program to deploy is
`faregate.service`.
"""
