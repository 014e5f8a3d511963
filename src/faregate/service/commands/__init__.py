"""The actions of `faregate service`."""
