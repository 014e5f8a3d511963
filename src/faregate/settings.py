"""Where a paywall's settings come from, and what is wrong with them. Arguments win over environment.

FAREGATE_API_KEY     the seller's private key; its prefix selects test or live
FAREGATE_BASE_URL    the service's address, or `emulator:` for one inside this process
FAREGATE_PUBLIC_URL  the address payers use, such as https://api.example.com
FAREGATE_JOURNAL     `memory:` (test keys only), `sqlite:///absolute/path`, `sqlite:relative/path`,
                     `redis://...` or `postgresql://...`
FAREGATE_JOURNAL_KEY what a stored journal is sealed with: base64 of 32 random bytes; several, separated
                     by commas, newest first. A test key needs none
FAREGATE_LAST_RESORT a file for the ids of open transactions that the journal could not write
"""

import base64
import hmac
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar, cast

from faregate.errors import Misconfigured
from faregate.merchant.secret import ApiKey

N = TypeVar("N", int, float)

EMULATOR = "emulator:"
EMULATOR_ADDRESS = "http://emulator.invalid"
MEMORY = "memory:"
MAX_REDELIVERIES = 1000
_MAKE_A_KEY = 'python -c "import secrets, base64; print(base64.b64encode(secrets.token_bytes(32)).decode())"'
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(?:/[^?#\s@]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings. `public_url` is empty when it was not set; sizes in bytes, times in seconds."""

    api_key: ApiKey
    base_url: str
    public_url: str
    journal: str
    journal_keys: tuple[bytes, ...] = field(repr=False)
    trust_host: bool
    max_result_bytes: int
    max_work_seconds: float
    timeout: float
    redeliveries: int
    redelivery_window: float
    last_resort: str

    @property
    def embedded(self) -> bool:
        return self.base_url == EMULATOR

    @property
    def namespace(self) -> str:
        """What a journal's rows are kept apart by."""
        return f"{self.api_key.environment} {self.base_url}"


class Arguments(TypedDict, total=False):
    """What may be said in code instead of, or beside, the environment."""

    api_key: str | None
    base_url: str | None
    public_url: str | None
    journal_keys: str | Sequence[str]
    trust_host: bool
    max_result_bytes: int
    max_work_seconds: float
    timeout: float
    redeliveries: int
    redelivery_window: float
    last_resort: str | None


KINDS: Mapping[str, tuple[type, ...]] = {
    "api_key": (str,),
    "base_url": (str,),
    "public_url": (str,),
    "journal_key": (str, list, tuple),
    "trust_host": (bool,),
    "max_result_bytes": (int,),
    "max_work_seconds": (int, float),
    "timeout": (int, float),
    "redeliveries": (int,),
    "redelivery_window": (int, float),
    "last_resort": (str,),
}
"""What a framework's own configuration may say; `journal_key` is the argument `journal_keys`."""


def configured(said: Mapping[str, object], spelt: Callable[[str], str]) -> Arguments:
    """Arguments from a framework's configuration, `said` by the names of `KINDS`; None is not said.

    `spelt` gives a name as the seller wrote it. Raises `Misconfigured` for a value of another type.
    """
    given: dict[str, object] = {}
    for name, kinds in KINDS.items():
        value = said.get(name)
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise Misconfigured(f"{spelt(name)} must be {expected}, not {type(value).__name__}.")
        given["journal_keys" if name == "journal_key" else name] = value
    return cast(Arguments, given)


def read(environ: Mapping[str, str], journal: str | None, arguments: Arguments) -> Settings:
    """Settings from arguments, else from `environ`. Raises `Misconfigured`, saying what to do."""
    address = arguments.get("base_url") or environ.get("FAREGATE_BASE_URL") or ""
    if not address:
        raise Misconfigured(
            "Where is the merchant service? Set FAREGATE_BASE_URL to its address, "
            "or to emulator: to run one inside this process."
        )
    key = ApiKey(arguments.get("api_key") or environ.get("FAREGATE_API_KEY") or _default_key(address))
    settings = Settings(
        key,
        address,
        _public(arguments.get("public_url") or environ.get("FAREGATE_PUBLIC_URL") or ""),
        journal or environ.get("FAREGATE_JOURNAL") or MEMORY,
        _journal_keys(arguments.get("journal_keys") or environ.get("FAREGATE_JOURNAL_KEY") or "", key),
        arguments.get("trust_host", False),
        _positive("max_result_bytes", arguments.get("max_result_bytes", 8 * 1024 * 1024)),
        _positive("max_work_seconds", arguments.get("max_work_seconds", 54.0)),
        _positive("timeout", arguments.get("timeout", 10.0)),
        _redeliveries(arguments.get("redeliveries", 3)),
        _positive("redelivery_window", arguments.get("redelivery_window", 600.0)),
        arguments.get("last_resort") or environ.get("FAREGATE_LAST_RESORT") or "",
    )
    _check_live(settings)
    return settings


def _positive(name: str, value: N) -> N:
    if not 0 < value < math.inf:
        raise Misconfigured(f"{name} must be a number above 0.")
    return value


def _redeliveries(count: int) -> int:
    if not 0 <= count <= MAX_REDELIVERIES:
        raise Misconfigured(f"redeliveries must be between 0 (off) and {MAX_REDELIVERIES}.")
    return count


def _default_key(address: str) -> str:
    if address == EMULATOR:
        return "svc_test_emulator"
    raise Misconfigured(
        "Which seller is this? Set FAREGATE_API_KEY to the private key from your seller account "
        "(svc_test_... to try things out, svc_live_... for real money)."
    )


def _public(url: str) -> str:
    if url and not _ORIGIN.fullmatch(url):
        raise Misconfigured(
            "FAREGATE_PUBLIC_URL must be the http(s) address payers use, such as https://api.example.com, "
            "without user, query or fragment."
        )
    return url.rstrip("/")


def _check_live(settings: Settings) -> None:
    if settings.api_key.environment != "live":
        return
    if settings.embedded:
        raise Misconfigured("A live key was given to the emulator. Use the test key svc_test_emulator.")
    if not settings.public_url:
        raise Misconfigured(
            "With a live key the address payers use must be said: set FAREGATE_PUBLIC_URL, "
            "such as https://api.example.com."
        )


def _journal_keys(given: str | Sequence[str], api_key: ApiKey) -> tuple[bytes, ...]:
    """Newest first. A test key is enough of a secret for a test journal; a live one has none made of it."""
    keys = given.split(",") if isinstance(given, str) else given
    if any(keys):
        return tuple(_journal_key(key.strip()) for key in keys)
    if api_key.environment == "live":
        return ()
    return (hmac.digest(api_key.reveal().encode(), b"faregate test journal", "sha256"),)


def _journal_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) == 32:
        return key
    raise Misconfigured(f"FAREGATE_JOURNAL_KEY must be base64 of 32 random bytes. {_how_to_make_a_key()}")


def _how_to_make_a_key() -> str:
    return f"Make one with {_MAKE_A_KEY} and keep it: without it the journal cannot be read."


def check_journal(settings: Settings) -> None:
    """Whether this key may be used with this journal. Raises `Misconfigured`."""
    if settings.journal == MEMORY:
        check_memory(settings)
    elif not settings.journal_keys:
        raise Misconfigured(
            "With a live key the journal needs a key of its own: set FAREGATE_JOURNAL_KEY. "
            + _how_to_make_a_key()
        )


def check_memory(settings: Settings) -> None:
    """The memory journal forgets, so a live key needs another."""
    if settings.api_key.environment == "live":
        raise Misconfigured(
            "A live key with the memory journal would forget what payers are owed when the process ends. "
            "Set FAREGATE_JOURNAL to sqlite:///absolute/path (or redis:, postgresql:), or use a test key."
        )
