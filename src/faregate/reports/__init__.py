"""Read the records of the merchant service for a seller: lists, exports, sums over time, typed contracts.

The commands of `faregate.cli` print what these modules return.
"""
