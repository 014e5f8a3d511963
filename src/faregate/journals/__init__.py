"""Where the seller remembers (DESIGN section 5). One protocol, `faregate.core.interfaces.Journal`."""
