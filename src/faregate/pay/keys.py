"""Who pays: a published test payer, or a key of one's own. A private key is never shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faregate.errors import ConfigurationError
from faregate.operations.app_loader import WrongCall
from faregate.service.test_payers import TEST_PAYERS

KEY_VARIABLE = "FAREGATE_PAYER_KEY"
DEFAULT_PAYER = "good"
_PRIVATE_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PayerKey:
    """A wallet's key. `own` is False for a test payer, whose key everybody knows."""

    name: str
    private_key: str = field(repr=False)
    own: bool


def payer_key(name: str | None, key_file: str | None, environ: Mapping[str, str]) -> PayerKey:
    """The key to pay with: the named test payer, else the file, else the environment, else `good`.

    Raises `WrongCall` for a payer that there is not, and `ConfigurationError` for what is no key.
    """
    if name is not None:
        return test_payer(name)
    if key_file is not None:
        return PayerKey("your key", _checked(_read(key_file), key_file), own=True)
    if environ.get(KEY_VARIABLE):
        return PayerKey("your key", _checked(environ[KEY_VARIABLE], KEY_VARIABLE), own=True)
    return test_payer(DEFAULT_PAYER)


def test_payer(name: str) -> PayerKey:
    """The test payer of this name, or `WrongCall`."""
    if name not in TEST_PAYERS:
        raise WrongCall(f"There is no test payer {name!r}. There are: {', '.join(TEST_PAYERS)}.")
    return PayerKey(name, TEST_PAYERS[name].private_key, own=False)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise ConfigurationError(f"the key file cannot be read: {error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} holds no private key: 64 hex digits, with or without 0x") from None


def _checked(text: str, where: str) -> str:
    """The key, or `ConfigurationError`, which does not repeat it."""
    key = text.strip()
    if not _PRIVATE_KEY.fullmatch(key) or int(key, 16) == 0:
        raise ConfigurationError(f"{where} holds no private key: 64 hex digits, with or without 0x")
    return key if key.startswith("0x") else f"0x{key}"
