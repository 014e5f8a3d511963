"""The Merchant API as pure domain logic: its rules over in-memory state and a payments backend."""
