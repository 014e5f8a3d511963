"""Check the path of the file. A file that was removed is not created again: what it held is still owed."""

import os
from contextlib import suppress
from pathlib import Path

from faregate.errors import ConfigurationError, JournalError
from faregate.journals.sqlite import errors


class Place:
    """Raises `ConfigurationError` if there is no folder for it, or one in its place."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"The journal's folder does not exist: make {self.path.parent} first.")
        if self.path.is_dir():
            raise ConfigurationError(f"The journal {self.path} is a folder: name a file in it.")
        self._known: tuple[int, int] | None = None

    def check(self) -> None:
        """Makes the file if this process never saw it. Raises `JournalError`."""
        found = self._found()
        if found is None and self._known is None:
            self._make()
            found = self._found()
        if found is None or self._known not in (None, found):
            raise errors.taken_away(self.path)
        self._known = found

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be reached: {error}") from error
        return found.st_dev, found.st_ino

    def _make(self) -> None:
        """For its owner alone. Never on a file that is there: closing it would end SQLite's locks."""
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be made: {error}") from error
