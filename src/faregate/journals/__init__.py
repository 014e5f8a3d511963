"""Where the seller remembers (DESIGN section 5). One protocol, `faregate.ports.Journal`."""
