"""The service's contract: one vocabulary for the client and the emulator."""
