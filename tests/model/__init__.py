"""The journal and the flow in every order of events a small model can have, and in many a larger has."""
