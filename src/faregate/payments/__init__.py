"""Real payments: backends that settle on a chain (`service.payments.Payments`), and how they reach it."""
