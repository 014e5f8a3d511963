"""`faregate probe`: run the same checks against any merchant service and report what it decides."""
