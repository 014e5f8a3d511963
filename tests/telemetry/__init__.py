"""OpenTelemetry, with the real SDK."""
