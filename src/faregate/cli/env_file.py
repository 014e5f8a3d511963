"""Read the file `.env` of the current folder, as `flask` and `uvicorn --env-file` do."""

import sys
from pathlib import Path
from typing import Final

from faregate.errors import CommandError

ENV_FILE: Final = ".env"


def load_env_file() -> None:
    """Add the variables of `.env` to the environment; a variable that is set there already wins.

    Without python-dotenv nothing is read, and a message on stderr says so. Raises `CommandError`.
    """
    path = Path(ENV_FILE)
    try:
        if not path.is_file():  # a virtual environment may have this name
            return
        try:
            from dotenv import load_dotenv
        except ImportError:
            if b"FAREGATE_" in path.read_bytes():
                message = f"faregate: the settings in {ENV_FILE} are not read: pip install 'faregate[cli]'"
                print(message, file=sys.stderr)
            return
        load_dotenv(path)
    except OSError as error:
        raise CommandError(f"{ENV_FILE} cannot be read: {error.strerror}.") from None
    except ValueError:  # its message may have a part of a value
        raise CommandError(f"{ENV_FILE} cannot be read: it is not UTF-8, or has a NUL byte.") from None
