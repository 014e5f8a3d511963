"""Read and check the settings of a paywall. Arguments win over environment variables.

FAREGATE_API_KEY     the seller's private key; its prefix selects test or live
FAREGATE_BASE_URL    the service's address, or `emulator:` for one inside this process
FAREGATE_PUBLIC_URL  the address payers use, such as https://api.example.com
FAREGATE_JOURNAL     `memory:` (test keys only), `sqlite:///absolute/path`, `sqlite:relative/path`,
                     `redis://...` or `postgresql://...`
FAREGATE_JOURNAL_KEY what a stored journal is sealed with: base64 of 32 random bytes; several, separated
                     by commas, newest first. A test key needs none
FAREGATE_LAST_RESORT a file for the ids of open transactions that the journal could not write

Every other scalar argument has its variable as well: FAREGATE_TIMEOUT, FAREGATE_MAX_RESULT_BYTES, ...
"""

import base64
import difflib
import hmac
import ipaddress
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar, cast
from urllib.parse import urlsplit

from faregate.core.settlement import RETRY_SECONDS
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.merchant.api_key import ApiKey
from faregate.merchant.types import find_url_fault
from faregate.server_timeouts import find_server_timeout

N = TypeVar("N", int, float)

EMULATOR = "emulator:"
EMULATOR_ADDRESS = "http://emulator.invalid"
MEMORY = "memory:"
MAX_REDELIVERIES = 1000
OTHER_VARIABLES = ("FAREGATE_JOURNAL", "FAREGATE_PAYER_KEY", "FAREGATE_READ_ONLY_KEY")
"""Variables that are read elsewhere."""
_TRUTHS = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(["0", "false", "no", "off"], False)
REQUEST_SECONDS = 55.0
OF_SERVER_TIMEOUT = 5 / 6
"""How much of the server's own time-out a request may take."""
_MAKE_A_KEY = 'python -c "import secrets, base64; print(base64.b64encode(secrets.token_bytes(32)).decode())"'
_PORTS = {"http": 80, "https": 443}


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
    max_request_seconds: float
    timeout: float
    redeliveries: int
    redelivery_window: float
    last_resort: str

    @property
    def completion_seconds(self) -> float:
        """How much of a request is kept for reporting its outcome, however slow the service is."""
        return self.timeout + RETRY_SECONDS + 1

    @property
    def embedded(self) -> bool:
        return self.base_url == EMULATOR

    @property
    def namespace(self) -> str:
        """What a journal's rows are kept apart by: workers that spell one address in two ways share them."""
        return make_namespace(self.api_key.environment, self.base_url)

    @property
    def seller(self) -> str:
        """What tells this API key from others in a journal. It does not give the key away."""
        return hmac.digest(b"faregate seller", self.api_key.reveal().encode(), "sha256")[:8].hex()


def make_namespace(environment: str, base_url: str) -> str:
    return f"{environment} {normalize_address(base_url)}"


def normalize_address(base_url: str) -> str:
    """One spelling for each address: case, default port, trailing slash, and the names of this machine."""
    try:
        parts = urlsplit(base_url)
        scheme, host, port = parts.scheme, (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return base_url  # the client refuses it, and says why
    if scheme not in _PORTS:
        return base_url
    host = _normalize_host(host)
    address = f"{scheme}://{host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{host}:{port}"
    return address + parts.path.rstrip("/")


def _normalize_host(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        with suppress(UnicodeError):
            return host.encode("idna").decode()
        return host
    if address.is_loopback:
        return "localhost"
    return str(address) if address.version == 4 else f"[{address}]"


class Arguments(TypedDict, total=False):
    """What may be said in code instead of, or beside, the environment."""

    api_key: str | None
    base_url: str | None
    public_url: str | None
    journal_keys: str | Sequence[str]
    trust_host: bool
    max_result_bytes: int
    max_work_seconds: float
    max_request_seconds: float
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
    "max_request_seconds": (int, float),
    "timeout": (int, float),
    "redeliveries": (int,),
    "redelivery_window": (int, float),
    "last_resort": (str,),
}
"""What a framework's own configuration may say; `journal_key` is the argument `journal_keys`."""


def configured(said: Mapping[str, object], spelt: Callable[[str], str]) -> Arguments:
    """Arguments from a framework's configuration, `said` by the names of `KINDS`; None is not said.

    `spelt` gives a name as the seller wrote it. Raises `ConfigurationError` for a value of another type.
    """
    given: dict[str, object] = {}
    for name, kinds in KINDS.items():
        value = said.get(name)
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigurationError(f"{spelt(name)} must be {expected}, not {type(value).__name__}.")
        given["journal_keys" if name == "journal_key" else name] = value
    return cast(Arguments, given)


def from_environ(environ: Mapping[str, str]) -> Arguments:
    """Arguments from environment variables, `FAREGATE_` and the name in upper case.

    Raises `ConfigurationError` for a value that cannot be read, and for a variable that looks like a misspelt
    one.
    """
    variables = {variable_of(name): name for name in KINDS}
    _check_spelling(environ, {*variables, *OTHER_VARIABLES})
    given: dict[str, object] = {}
    for variable, name in variables.items():
        text = environ.get(variable, "").strip()
        if text:
            given["journal_keys" if name == "journal_key" else name] = _parse(variable, text, KINDS[name])
    return cast(Arguments, given)


def variable_of(name: str) -> str:
    return f"FAREGATE_{name.upper()}"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence; empty if nothing is near."""
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f" Did you mean {found[0]}?" if found else ""


def _check_spelling(environ: Mapping[str, str], known: set[str]) -> None:
    """A variable of another program may begin like ours; one that is nearly ours is a mistake."""
    for variable in environ:
        if variable.startswith("FAREGATE_") and variable not in known:
            hint = nearest_name(variable, known)
            if hint:
                raise ConfigurationError(f"faregate knows no variable {variable}.{hint}")


def _parse(variable: str, text: str, kinds: tuple[type, ...]) -> object:
    if str in kinds:
        return text
    if bool in kinds:
        if text.lower() in _TRUTHS:
            return _TRUTHS[text.lower()]
        raise ConfigurationError(f"{variable} must be true or false, not {text!r}.")
    try:
        return float(text) if float in kinds else int(text)
    except ValueError:
        kind = "a number" if float in kinds else "a whole number"
        raise ConfigurationError(f"{variable} must be {kind}, not {text!r}.") from None


def read(environ: Mapping[str, str], journal: str | None, arguments: Arguments) -> Settings:
    """Settings from arguments, else from `environ`. Raises `ConfigurationError`, saying what to do."""
    spoken = {name: value for name, value in arguments.items() if value is not None}
    found = cast(Arguments, {**from_environ(environ), **spoken})

    def spelt(name: str) -> str:
        """A setting as it was given: by its variable, or by its argument."""
        return name if name in spoken or variable_of(name) not in environ else variable_of(name)

    address = _base_url(found.get("base_url") or "", spelt("base_url"))
    key = ApiKey(found.get("api_key") or _default_key(address))
    server_timeout = find_server_timeout()
    settings = Settings(
        key,
        address,
        _public(spelt("public_url"), found.get("public_url") or ""),
        journal or environ.get("FAREGATE_JOURNAL") or MEMORY,
        _journal_keys(found.get("journal_keys") or "", key),
        found.get("trust_host", False),
        _positive(spelt("max_result_bytes"), found.get("max_result_bytes", 8 * 1024 * 1024)),
        _positive(spelt("max_work_seconds"), found.get("max_work_seconds", 54.0)),
        _request_seconds(spelt("max_request_seconds"), found.get("max_request_seconds"), server_timeout),
        _positive(spelt("timeout"), found.get("timeout", 10.0)),
        _redeliveries(spelt("redeliveries"), found.get("redeliveries", 3)),
        _positive(spelt("redelivery_window"), found.get("redelivery_window", 600.0)),
        found.get("last_resort") or "",
    )
    _check_live(settings)
    _check_times(settings, server_timeout if found.get("max_request_seconds") is None else None, spelt)
    return settings


def _base_url(address: str, spelt: str) -> str:
    if not address:
        raise ConfigurationError(
            "Where is the merchant service? Set FAREGATE_BASE_URL to its address, "
            "or to emulator: to run one inside this process."
        )
    if address == EMULATOR.rstrip(":"):
        raise ConfigurationError(
            f"{spelt} is {address!r}: say {EMULATOR!r}, with a colon, to run one in this process."
        )
    if address != EMULATOR and "://" not in address and not {"@", "?"} & set(address):
        raise ConfigurationError(f"{spelt} is {address!r}, and lacks its scheme: say 'https://{address}'.")
    return address


def _positive(name: str, value: N) -> N:
    if not 0 < value < math.inf:
        raise ConfigurationError(f"{name} must be a number above 0.")
    return value


def _request_seconds(spelt: str, given: float | None, server_timeout: float | None) -> float:
    """By default, what fits into a minute, which most proxies wait, and into the server's own time-out."""
    if given is None:
        return min(REQUEST_SECONDS, OF_SERVER_TIMEOUT * (server_timeout or math.inf))
    if server_timeout is not None and given > server_timeout:
        log(
            logging.WARNING,
            "%s is %g, and this server ends a request after %g s: a payer may be answered with the "
            "server's error although the payment succeeds. Raise the server's time-out.",
            spelt,
            given,
            server_timeout,
        )
    return _positive(spelt, given)


def _check_times(settings: Settings, server_timeout: float | None, spelt: Callable[[str], str]) -> None:
    """`server_timeout` is that of the server if `max_request_seconds` was made of it."""
    least = settings.completion_seconds + 1
    if settings.max_request_seconds >= least:
        return
    needed = f"reporting an outcome may take {settings.completion_seconds:g}"
    if server_timeout is not None:
        raise ConfigurationError(
            f"This server ends a request after {server_timeout:g} s, and {needed} s. Raise the server's "
            f"time-out to {math.ceil(least / OF_SERVER_TIMEOUT)} s or more (gunicorn: --timeout, uWSGI: "
            f"harakiri), or make {spelt('timeout')} smaller."
        )
    raise ConfigurationError(
        f"{spelt('max_request_seconds')} is {settings.max_request_seconds:g}, and {needed} of them: make it "
        f"{least:g} or more, or {spelt('timeout')} smaller."
    )


def _redeliveries(spelt: str, count: int) -> int:
    if not 0 <= count <= MAX_REDELIVERIES:
        raise ConfigurationError(f"{spelt} must be between 0 (off) and {MAX_REDELIVERIES}.")
    return count


def _default_key(address: str) -> str:
    if address == EMULATOR:
        return "svc_test_emulator"
    raise ConfigurationError(
        "Which seller is this? Set FAREGATE_API_KEY to the private key from your seller account "
        "(svc_test_... to try things out, svc_live_... for real money)."
    )


def _public(spelt: str, url: str) -> str:
    """What every resource URL begins with: access refuses one that is no URL."""
    if url and (fault := find_url_fault(url)) is not None:
        raise ConfigurationError(
            f"{spelt} must be the http(s) address payers use, such as https://api.example.com. It {fault}."
        )
    return url.rstrip("/")


def _check_live(settings: Settings) -> None:
    if settings.api_key.environment != "live":
        return
    if settings.embedded:
        raise ConfigurationError("A live key was given to the emulator. Use the test key svc_test_emulator.")
    if not settings.public_url:
        raise ConfigurationError(
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
    raise ConfigurationError(
        f"FAREGATE_JOURNAL_KEY must be base64 of 32 random bytes. {_how_to_make_a_key()}"
    )


def _how_to_make_a_key() -> str:
    return f"Make one with {_MAKE_A_KEY} and keep it: without it the journal cannot be read."


def check_journal(settings: Settings) -> None:
    """Whether this key may be used with this journal. Raises `ConfigurationError`."""
    if settings.journal == MEMORY:
        check_memory(settings)
    elif not settings.journal_keys:
        raise ConfigurationError(
            "With a live key the journal needs a key of its own: set FAREGATE_JOURNAL_KEY. "
            + _how_to_make_a_key()
        )


def check_memory(settings: Settings) -> None:
    """The memory journal forgets, so a live key needs another."""
    if settings.api_key.environment == "live":
        raise ConfigurationError(
            "A live key with the memory journal would forget what payers are owed when the process ends. "
            "Set FAREGATE_JOURNAL to sqlite:///absolute/path (or redis:, postgresql:), or use a test key."
        )
