"""The Merchant API seen from its client: types, operations, transports, and the client itself.

The service uses the types, too. Its rules are in `faregate.service`, and the program to deploy is
`faregate.selfhosted`.
"""
