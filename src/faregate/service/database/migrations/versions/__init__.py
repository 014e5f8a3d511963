"""The migrations, oldest first by their numbers. A released one never changes."""
