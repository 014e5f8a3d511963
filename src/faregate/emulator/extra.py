"""What is said when a package of the `emulator` extra is not there."""


def extra_missing(error: ModuleNotFoundError) -> ImportError:
    """The error to raise instead: it names the package and the extra that brings it."""
    return ImportError(f"the emulator needs {error.name}: pip install 'faregate[emulator]'", name=error.name)
