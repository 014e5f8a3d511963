"""The paywall for Django."""
