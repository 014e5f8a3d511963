"""One story of a seller's calls, told to the emulator and to the service: the answers must be the same."""
