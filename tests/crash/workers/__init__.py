"""Real sellers under load whose workers are killed at random, and what became of every payment."""
