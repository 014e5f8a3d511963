"""Read and check the settings of a paywall. Arguments win over environment variables."""

import base64
import hmac
import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from faregate.core.completion import RETRY_BUDGET_SECONDS
from faregate.errors import ConfigurationError, nearest_name
from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.urls import MEMORY
from faregate.logs import log
from faregate.merchant.address import make_namespace
from faregate.merchant.api_key import ApiKey
from faregate.merchant.formats import find_url_fault
from faregate.server_config import find_server_timeout, find_server_workers
from faregate.setting_reader import (
    Description,
    GivenValues,
    NameSetting,
    above_zero,
    between,
    name_variable,
    read_declarations,
)
from faregate.x402.payment_identifier import IdentifierUse
from faregate.x402.tokens import ENVIRONMENTS

EMULATOR = "emulator:"
SERVICE = "service:"
IN_PROCESS = {EMULATOR: "http://emulator.invalid", SERVICE: "https://service.invalid"}
"""The services that run inside the application's process, and the address that their calls carry."""
_THIS_MACHINE = ("127.", "localhost", "[::1]")
MAX_REDELIVERIES = 1000
OTHER_VARIABLES = ("FAREGATE_JOURNAL", "FAREGATE_PAYER_KEY", "FAREGATE_READ_ONLY_KEY")
"""Variables that no field of `Arguments` declares."""
DEFAULT_REQUEST_SECONDS = 55.0
DEFAULT_SETTLE_WAIT = 3.0
"""With the 5 seconds that `faregate service` waits, less than the 10 after which many clients give up."""
SERVER_TIMEOUT_SHARE = 5 / 6
"""The share of the server's own time-out that a request may take."""
_MAKE_A_KEY = (
    'Create one with python -c "import secrets, base64; '
    'print(base64.b64encode(secrets.token_bytes(32)).decode())" '
    "and keep it: without it the journal cannot be read."
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings. `public_url` is empty when it was not set; sizes in bytes, times in seconds.

    `journal` is not used where the paywall was given a journal object.

    `name_setting` gives the name of one as the seller wrote it, or would write it, for messages.
    """

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
    otel: bool
    discovery: bool
    redeliveries: int
    redelivery_window: float
    last_resort: str
    settle_wait: float
    resume_open_payments: bool
    identifier_use: IdentifierUse
    name_setting: NameSetting = field(repr=False, compare=False)

    @property
    def completion_seconds(self) -> float:
        """The time at the end of a request that is kept for completing its payment at a slow service."""
        return self.timeout + RETRY_BUDGET_SECONDS + 1

    @property
    def embedded(self) -> bool:
        """Whether the service runs inside this process."""
        return self.base_url in IN_PROCESS

    @property
    def namespace(self) -> str:
        """The namespace of this paywall's rows. Workers that spell one address in two ways share it."""
        return make_namespace(self.api_key.environment, self.base_url)

    @property
    def seller(self) -> str:
        """A hash that tells this API key from others in a journal."""
        return hmac.digest(b"faregate seller", self.api_key.reveal().encode(), "sha256")[:8].hex()


def _check_redeliveries(count: int) -> str:
    return "" if 0 <= count <= MAX_REDELIVERIES else f"must be between 0 (off) and {MAX_REDELIVERIES}"


class Arguments(TypedDict, total=False):
    """Arguments of `Paywall`. This class declares each setting that is no object; for those see `OBJECTS`.

    Environment variables (`FAREGATE_` and the name in upper case), the keys of Flask's config and of
    Django's `FAREGATE`, types, defaults and the table in docs/settings.md are made from it.
    """

    base_url: Annotated[
        str | None,
        Description(
            "address of the service; `service:` runs it [inside this process](one-process.md), `emulator:` "
            "runs one for tests",
            shown="required",
        ),
    ]
    api_key: Annotated[
        str | None,
        Description(
            "your private key; its prefix, `svc_test_` or `svc_live_`, selects the environment",
            shown="required; `svc_test_emulator` with `emulator:`, none with `service:`",
        ),
    ]
    public_url: Annotated[
        str | None,
        Description(
            "the address clients use, such as `https://api.example.com`; required with a live key",
            shown="the address the server listens on",
        ),
    ]
    journal_key: Annotated[
        str | Sequence[str],
        Description(
            "the [encryption key](journals.md#its-key) of a stored journal: base64 of 32 random bytes; "
            "several, separated by commas, newest first",
            shown="derived from a test key; required with a live key",
        ),
    ]
    last_resort: Annotated[
        str | None,
        Description(
            "a file for transaction ids that the [journal could not write]"
            "(journals.md#when-the-journal-fails)",
            shown="only the log",
        ),
    ]
    redeliveries: Annotated[
        int,
        Description(
            "how often a released result is [delivered again](journals.md#retention); 0 turns it off",
            DEFAULT_POLICY.redeliveries,
            check=_check_redeliveries,
        ),
    ]
    redelivery_window: Annotated[
        float,
        Description(
            "for how many seconds after the first delivery",
            DEFAULT_POLICY.redelivery_window,
            check=above_zero,
        ),
    ]
    trust_host: Annotated[
        bool,
        Description("without a public URL, build the resource's address from the `Host` header", False),
    ]
    max_result_bytes: Annotated[
        int,
        Description(
            "the largest result that is buffered and sold", 8 * 1024 * 1024, "8 MiB", check=above_zero
        ),
    ]
    max_work_seconds: Annotated[
        float,
        Description(
            "how long a paid handler may take; less if the request has less time left", 54.0, check=above_zero
        ),
    ]
    max_request_seconds: Annotated[
        float,
        Description(
            "how long a paid request may take; see [time-outs](timeouts.md)",
            shown="55; less if the server ends requests sooner",
            check=above_zero,
        ),
    ]
    otel: Annotated[
        bool,
        Description(
            "spans and metrics through [OpenTelemetry](observability.md#opentelemetry)",
            False,
        ),
    ]
    discovery: Annotated[
        bool,
        Description("add to each `402` what [catalogues](discovery.md) of paid resources read", False),
    ]
    timeout: Annotated[
        float,
        Description(
            "seconds for one call to the service; at most half of it [waiting](client.md#calls-under-way)",
            10.0,
            check=above_zero,
        ),
    ]
    settle_wait: Annotated[
        float,
        Description(
            "for how many seconds a request waits for a payment that the service answered with `202`; less "
            "in [servers with threads](timeouts.md#payments-that-settle-slowly); 0 turns it off",
            shown="3; 0 with `emulator:`",
            check=between(0, 600),
        ),
    ]
    resume_open_payments: Annotated[
        bool,
        Description(
            "a payer's new payment for the same request while an earlier one is open [resumes that one]"
            "(flow.md#a-new-payment-while-one-is-open), and is not charged",
            True,
        ),
    ]
    payment_identifier: Annotated[
        Literal["optional", "required"] | None,
        Description(
            "ask payers for an [id of each purchase](flow.md#purchases-that-payers-name): `optional`, or "
            "`required` to refuse payments without one",
            shown="none",
        ),
    ]
    environment: Annotated[
        str | None,
        Description(
            "`test` or `live`, for `service:`, which has no API key; elsewhere it must match the key",
            shown="`test` with `service:`",
        ),
    ]


SETTINGS: Final = read_declarations(Arguments)

OBJECTS: Final = {
    "journal": Description(
        "where payments are stored; see [journals](journals.md#choose-a-store)", shown="`memory:`"
    ),
    "on_event": Description(
        "a plain function that receives every [event](observability.md#events)", shown="none"
    ),
    "payment_page": Description(
        "the [page that people get](payment-page.md) with a `402`: a `PaymentPage`, or a plain function that "
        "takes the `PaymentTerms` and returns HTML",
        shown="`PaymentPage()`",
    ),
    "payment_body": Description(
        "a plain function that takes the `PaymentTerms` of a `402` and returns [what its JSON body says]"
        "(payment-page.md#the-json-body)",
        shown="the service's body, unchanged",
    ),
    "transport": Description(
        "how the service is called; see [the client](client.md#transports)",
        shown="the built-in one",
    ),
}
"""Arguments of `Paywall` that may be objects. Of them only the journal can be named in the environment."""


def from_config(values: Mapping[str, object], name_setting: NameSetting) -> Arguments:
    """Arguments of `values` by name, such as a framework's configuration; None counts as not given.

    `name_setting` gives a name as the seller wrote it. Raises `ConfigurationError` for an invalid
    value.
    """
    given = GivenValues(SETTINGS)
    for name in SETTINGS:
        if (value := values.get(name)) is not None:
            given.add(name, value, name_setting(name))
    return cast(Arguments, given.values)


def from_environ(environ: Mapping[str, str]) -> Arguments:
    """Arguments from environment variables.

    Raises `ConfigurationError` for a value that cannot be read, and for a variable that looks misspelt.
    """
    known = {setting.variable for setting in SETTINGS.values()} | set(OTHER_VARIABLES)
    check_setting_names(environ, known)
    given = GivenValues(SETTINGS)
    for name, setting in SETTINGS.items():
        if text := environ.get(setting.variable, "").strip():
            given.add_text(name, text, setting.variable)
    return cast(Arguments, given.values)


def check_setting_names(variables: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Raise `ConfigurationError` for a name that is nearly one of the known ones.

    For environment variables and Flask's config. `where` ends the name in the message, such as
    `" in the app's config"`. Django's settings are checked in `django/options.py`. Variables that begin with
    `FAREGATE_SERVICE_` are left to `service/settings.py`, which checks them when the service starts.
    """
    for variable in variables:
        # Another program's variable may begin like ours; only one that is nearly ours is a mistake.
        is_ours = variable.startswith("FAREGATE_") and not variable.startswith("FAREGATE_SERVICE_")
        is_unknown = is_ours and variable not in known
        if is_unknown and (hint := nearest_name(variable, known)):
            raise ConfigurationError(f"{variable}{where} is not a setting of faregate.{hint}")


def check_arguments(arguments: Iterable[str], own: Collection[str]) -> None:
    """Raise `ConfigurationError` for an argument that is nearly one of the `own` ones of a middleware."""
    for name in arguments:
        if name not in SETTINGS and name not in OBJECTS and (hint := nearest_name(name, own)):
            raise ConfigurationError(f"{name}: no such argument.{hint}")


def read_settings(
    environ: Mapping[str, str],
    journal: object,
    arguments: Arguments,
    name_argument: NameSetting | None = None,
) -> Settings:
    """Settings from arguments, else from `environ`, else their defaults. Raises `ConfigurationError`.

    `name_argument` is given by a framework whose configuration the arguments come from.
    """
    unknown = arguments.keys() - SETTINGS.keys()
    if unknown:
        hints = "".join(nearest_name(name, (*OBJECTS, *SETTINGS)) for name in sorted(unknown))
        raise ConfigurationError(f"{', '.join(sorted(unknown))}: no such option of the paywall.{hints}")
    configured = from_config(arguments, name_argument or str)
    defaults = {name: setting.description.default for name, setting in SETTINGS.items()}
    values: dict[str, Any] = {**defaults, **from_environ(environ), **configured}
    given_as_argument = {*configured, *(() if journal is None else ("journal",))}
    name_setting = choose_setting_names(environ, given_as_argument, name_argument)

    base_url = _check_base_url(name_setting("base_url"), values["base_url"] or "")
    api_key = _read_api_key(name_setting, values["api_key"], base_url, values["environment"])
    server_timeout = find_server_timeout()
    settings = Settings(
        api_key=api_key,
        base_url=base_url,
        public_url=_check_public_url(name_setting("public_url"), values["public_url"] or ""),
        journal=(journal if isinstance(journal, str) else "") or find_journal(environ, base_url),
        journal_keys=_decode_journal_keys(name_setting("journal_key"), values["journal_key"] or "", api_key),
        trust_host=values["trust_host"],
        max_request_seconds=_choose_request_seconds(
            name_setting("max_request_seconds"), values["max_request_seconds"], server_timeout
        ),
        redeliveries=values["redeliveries"],
        last_resort=values["last_resort"] or "",
        max_result_bytes=values["max_result_bytes"],
        max_work_seconds=values["max_work_seconds"],
        timeout=values["timeout"],
        otel=values["otel"],
        discovery=values["discovery"],
        redelivery_window=values["redelivery_window"],
        settle_wait=_choose_settle_wait(values["settle_wait"], base_url),
        resume_open_payments=values["resume_open_payments"],
        identifier_use=IdentifierUse(values["payment_identifier"] or ""),
        name_setting=name_setting,
    )
    _check_live(settings)
    follows_server = (
        values["max_request_seconds"] is None and settings.max_request_seconds < DEFAULT_REQUEST_SECONDS
    )
    _check_times(settings, server_timeout if follows_server else None)
    return settings


def choose_setting_names(
    environ: Mapping[str, str], given_as_argument: Collection[str], name_argument: NameSetting | None
) -> NameSetting:
    """Name settings by where they were given: as an argument or as a variable.

    A setting that was not given is named as a variable, or as a key of the framework's configuration that has
    the others. It is never named as a keyword argument: keys do not belong in source code.
    """

    def name_setting(name: str) -> str:
        variable = name_variable(name)
        belongs_there = name_argument is not None and bool(given_as_argument) and variable not in environ
        return (name_argument or str)(name) if name in given_as_argument or belongs_there else variable

    return name_setting


def read_client_settings(environ: Mapping[str, str]) -> tuple[ApiKey, str, float]:
    """API key, address and time-out in seconds, for a tool that calls the service and sells nothing.

    Raises `ConfigurationError`.
    """
    variables = from_environ(environ)
    if not variables.get("base_url"):
        raise ConfigurationError(
            "Where is the merchant service? Set FAREGATE_BASE_URL to its address, or to the address that "
            "`faregate emulator` prints."
        )
    base_url = _check_base_url("FAREGATE_BASE_URL", variables.get("base_url") or "")
    api_key = _read_api_key(name_variable, variables.get("api_key"), base_url, variables.get("environment"))
    timeout = variables.get("timeout", SETTINGS["timeout"].description.default)
    return api_key, base_url, timeout


def _check_base_url(name: str, address: str) -> str:
    if not address:
        raise ConfigurationError(
            f"Where is the merchant service? Set {name} to its address, "
            "to service: to run it inside this process, or to emulator: for tests."
        )
    for kind in IN_PROCESS:
        if address in (kind.rstrip(":"), f"{kind}//"):
            raise ConfigurationError(f"{name} is {address!r}: use {kind!r} to run one in this process.")
    # An address with `@` or `?` may contain a password. The client refuses it without repeating it.
    if address not in IN_PROCESS and "://" not in address and not {"@", "?"} & set(address):
        scheme = "http" if address.startswith(_THIS_MACHINE) else "https"
        raise ConfigurationError(f"{name} is {address!r}, and has no scheme: use '{scheme}://{address}'.")
    return address


def _choose_request_seconds(name: str, given: float | None, server_timeout: float | None) -> float:
    if given is None:
        # Most proxies wait a minute; the server may have a shorter time-out of its own.
        return min(DEFAULT_REQUEST_SECONDS, SERVER_TIMEOUT_SHARE * (server_timeout or math.inf))
    if server_timeout is not None and given > server_timeout:
        log(
            "settings",
            logging.WARNING,
            "%s is %g, and this server ends a request after %g s: a payer may be answered with the "
            "server's error although the payment succeeds. Raise the server's time-out.",
            name,
            given,
            server_timeout,
        )
    return given


def _choose_settle_wait(given: float | None, base_url: str) -> float:
    if given is not None:
        return given
    # Tests with payments that settle slowly are about the 202.
    return 0.0 if base_url == EMULATOR else DEFAULT_SETTLE_WAIT


def _check_times(settings: Settings, server_timeout: float | None) -> None:
    """Check that a payment can be completed within a request.

    `server_timeout` is that of the server if `max_request_seconds` follows from it.
    """
    least = settings.completion_seconds + 1
    if settings.max_request_seconds >= least:
        return
    needed = f"reporting an outcome may take {settings.completion_seconds:g}"
    if server_timeout is not None:
        raise ConfigurationError(
            f"This server ends a request after {server_timeout:g} s, and {needed} s. Raise the server's "
            f"time-out to {math.ceil(least / SERVER_TIMEOUT_SHARE)} s or more (gunicorn: --timeout, uWSGI: "
            f"harakiri), or make {settings.name_setting('timeout')} smaller."
        )
    raise ConfigurationError(
        f"{settings.name_setting('max_request_seconds')} is {settings.max_request_seconds:g}, and {needed} "
        f"of them: make it {least:g} or more, or {settings.name_setting('timeout')} smaller."
    )


def _read_api_key(
    name_setting: NameSetting, key: str | None, address: str, environment: str | None
) -> ApiKey:
    if environment not in (None, *ENVIRONMENTS):
        raise ConfigurationError(f"{name_setting('environment')} must be test or live, not {environment!r}.")
    if not key and address not in IN_PROCESS:
        raise ConfigurationError(
            f"Which seller is this? Set {name_setting('api_key')} to the private key from your seller "
            "account (svc_test_... to try things out, svc_live_... for real money)."
        )
    wanted = environment or "test"
    try:
        # The service in this process asks for no key: this one only names the environment, and stays here.
        given = ApiKey(key or {EMULATOR: "svc_test_emulator"}.get(address, f"svc_{wanted}_service"))
    except ConfigurationError as error:
        key = ""  # a traceback with locals would show it
        raise ConfigurationError(f"{name_setting('api_key')}: {error}") from None
    if given.environment != wanted and (environment is not None or address == SERVICE):
        source = "of the emulator" if not key else f"in {name_setting('api_key')}"
        says = "is not set, which means" if environment is None else "says"
        raise ConfigurationError(
            f"The key {source} is of {given.environment}, and {name_setting('environment')} {says} {wanted}: "
            "make both say the same."
        )
    return ApiKey(f"svc_{wanted}_service") if address == SERVICE else given


def _check_public_url(name: str, url: str) -> str:
    # Every resource URL begins with it, and access refuses one that is not a URL.
    if url and (fault := find_url_fault(url)) is not None:
        raise ConfigurationError(
            f"{name} must be the http(s) address payers use, such as https://api.example.com. "
            f"Such an address {fault}."
        )
    return url.rstrip("/")


def _check_live(settings: Settings) -> None:
    if settings.api_key.environment != "live":
        return
    if settings.base_url == EMULATOR:
        raise ConfigurationError(
            "A live key was given to the emulator. Use the test key svc_test_emulator, or none."
        )
    # The service in this process names all that is missing at once.
    if not settings.public_url and settings.base_url != SERVICE:
        raise ConfigurationError(
            f"A live key needs the address that clients use: set {settings.name_setting('public_url')}, "
            "such as https://api.example.com."
        )


def _decode_journal_keys(name: str, given: str | Sequence[str], api_key: ApiKey | None) -> tuple[bytes, ...]:
    """The keys of a stored journal, newest first; none for a live key that has none.

    For a test key one is derived from it: a test journal holds nothing of value.
    """
    keys = given.split(",") if isinstance(given, str) else given
    if any(keys):
        return tuple(_decode_journal_key(name, key.strip()) for key in keys)
    if api_key is None or api_key.environment == "live":
        return ()
    return (hmac.digest(api_key.reveal().encode(), b"faregate test journal", "sha256"),)


def _decode_journal_key(name: str, text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) == 32:
        return key
    raise ConfigurationError(f"{name} must be base64 of 32 random bytes. {_MAKE_A_KEY}")


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """What it takes to look into a journal: no API key.

    `namespace` is None if the address is not set, or a service outside this process has no API key.
    """

    journal: str
    keys: tuple[bytes, ...] = field(repr=False)
    policy: JournalPolicy
    namespace: str | None


def read_journal_settings(
    environ: Mapping[str, str], name_setting: NameSetting = name_variable
) -> JournalSettings:
    """Read what it takes to look into a journal. Raises `ConfigurationError`."""
    defaults = {name: setting.description.default for name, setting in SETTINGS.items()}
    values: dict[str, Any] = {**defaults, **from_environ(environ)}
    # No API key is needed: without one, all namespaces are shown, and the journal key has to be set.
    base_url, given = values["base_url"] or "", values["api_key"]
    is_known = given or base_url in IN_PROCESS
    api_key = _read_api_key(name_setting, given, base_url, values["environment"]) if is_known else None
    keys = _decode_journal_keys(name_setting("journal_key"), values["journal_key"] or "", api_key)
    if not keys:
        raise ConfigurationError(
            f"The journal is encrypted: set {name_setting('journal_key')} to the key that the workers have. "
            f"If they have none, it is derived from their test key: set {name_setting('api_key')} to that."
        )
    policy = replace(
        DEFAULT_POLICY, redeliveries=values["redeliveries"], redelivery_window=values["redelivery_window"]
    )
    return JournalSettings(
        find_journal(environ, base_url),
        keys,
        policy,
        make_namespace(api_key.environment, base_url) if api_key and base_url else None,
    )


def find_journal(environ: Mapping[str, str], base_url: str) -> str:
    """Find the journal if no argument names it: its variable, or the database of a service in this process.

    Raises `ConfigurationError`.
    """
    journal = environ.get("FAREGATE_JOURNAL")
    if journal or base_url != SERVICE:
        return journal or MEMORY
    # By name: the service's packages are an extra.
    return str(load_service(name_variable("base_url")).find_database(environ))


def find_lacking(settings: Settings, has_own_journal: bool) -> dict[str, str]:
    """Find what is missing to take real money in this process: variables, and what each is."""
    if settings.api_key.environment != "live":
        return {}
    needed = {
        "public_url": (settings.public_url, "the address that clients use, such as https://api.example.com"),
        "journal_key": (
            settings.journal_keys or has_own_journal,
            "base64 of 32 random bytes, which encrypts stored results",
        ),
    }
    return {settings.name_setting(name): text for name, (given, text) in needed.items() if not given}


def load_service(setting: str) -> Any:
    """Import the service for this process. Raises `ConfigurationError` if its packages are not installed."""
    try:
        return import_module("faregate.service.in_process")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting} is {SERVICE}, which needs the service's packages: pip install 'faregate[service]' "
            f"({error.name} is missing)"
        ) from error


def check_journal(settings: Settings) -> None:
    """Check that this API key may be used with this journal. Raises `ConfigurationError`."""
    if settings.journal == MEMORY:
        check_memory(settings)
    elif not settings.journal_keys:
        raise ConfigurationError(
            f"With a live key the journal needs an encryption key: set "
            f"{settings.name_setting('journal_key')}. {_MAKE_A_KEY}"
        )


def check_memory(settings: Settings) -> None:
    """Refuse a live key with the memory journal, and warn of one per worker. Raises `ConfigurationError`."""
    if settings.api_key.environment == "live":
        raise ConfigurationError(
            "A live key with the memory journal would forget what payers are owed when the process ends. "
            f"Set {settings.name_setting('journal')} to sqlite:////absolute/path (or redis:, postgresql:), "
            "or use a test key."
        )
    workers = find_server_workers() or 1
    if workers > 1:
        log(
            "settings",
            logging.WARNING,
            "This server runs %d workers, and each has a memory journal of its own: the work for one payment "
            "may be done twice, and a payer who returns may not find the result. Set %s to a "
            "journal that they share, such as sqlite:////absolute/path, or run one worker.%s",
            workers,
            settings.name_setting("journal"),
            _ONE_EMULATOR.format(settings.name_setting("base_url")) if settings.base_url == EMULATOR else "",
        )


_ONE_EMULATOR = (
    " Each worker has an emulator of its own too: run `faregate emulator`, and set {} to its address."
)
