"""The read-only console of the service: payments, payers, resources and revenue, behind a login by a key."""
