"""What `faregate service doctor` checks: everything that the settings name."""
