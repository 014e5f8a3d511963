"""Where a paywall's settings come from, and what is wrong with them. Arguments win over environment.

FAREGATE_API_KEY     the seller's private key; its prefix selects test or live
FAREGATE_BASE_URL    the service's address, or `emulator:` for one inside this process
FAREGATE_PUBLIC_URL  the address payers use, such as https://api.example.com
FAREGATE_JOURNAL     `memory:` (test keys only)
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from faregate.errors import Misconfigured
from faregate.merchant.secret import ApiKey

N = TypeVar("N", int, float)

EMULATOR = "emulator:"
EMULATOR_ADDRESS = "http://emulator.invalid"
MEMORY = "memory:"
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(?:/[^?#\s@]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings. `public_url` is empty when it was not set; sizes in bytes, times in seconds."""

    api_key: ApiKey
    base_url: str
    public_url: str
    journal: str
    trust_host: bool
    max_result_bytes: int
    max_work_seconds: float
    timeout: float

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
    trust_host: bool
    max_result_bytes: int
    max_work_seconds: float
    timeout: float


def read(environ: Mapping[str, str], journal: str | None, arguments: Arguments) -> Settings:
    """Settings from arguments, else from `environ`. Raises `Misconfigured`, saying what to do."""
    address = arguments.get("base_url") or environ.get("FAREGATE_BASE_URL") or ""
    if not address:
        raise Misconfigured(
            "Where is the merchant service? Set FAREGATE_BASE_URL to its address, "
            "or to emulator: to run one inside this process."
        )
    key = arguments.get("api_key") or environ.get("FAREGATE_API_KEY") or _default_key(address)
    settings = Settings(
        ApiKey(key),
        address,
        _public(arguments.get("public_url") or environ.get("FAREGATE_PUBLIC_URL") or ""),
        journal or environ.get("FAREGATE_JOURNAL") or MEMORY,
        arguments.get("trust_host", False),
        _positive("max_result_bytes", arguments.get("max_result_bytes", 8 * 1024 * 1024)),
        _positive("max_work_seconds", arguments.get("max_work_seconds", 54.0)),
        _positive("timeout", arguments.get("timeout", 10.0)),
    )
    _check_live(settings)
    return settings


def _positive(name: str, value: N) -> N:
    if not 0 < value < math.inf:
        raise Misconfigured(f"{name} must be a number above 0.")
    return value


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


def check_journal(settings: Settings, lasting: bool) -> None:
    """`memory:` is the journal that comes with this version; it forgets, so live keys need a lasting one."""
    if lasting:
        return
    if settings.journal != MEMORY:
        raise Misconfigured(
            f"FAREGATE_JOURNAL is {settings.journal!r}, and this version brings only {MEMORY!r}. "
            "Unset it, or give the paywall a journal object of your own."
        )
    if settings.api_key.environment == "live":
        raise Misconfigured(
            "A live key with the memory journal would forget what payers are owed when the process ends. "
            "Give the paywall a durable journal, or use a test key."
        )
