"""The settings of the service: one class, whose fields are environment variables, options and TOML keys.

Options come before `FAREGATE_SERVICE_*` variables, and these before a TOML file. A message names a setting as
the person typed it: `--port`, `FAREGATE_SERVICE_PORT`, or `port` in the file.

`database` may hold a password, and an RPC URL often holds an access key: they are in no repr and in no
message. The key of the gas account is never a setting, only where it is.
"""

import os
import re
import tomllib
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from faregate.commands import Option
from faregate.errors import ConfigurationError, nearest_name
from faregate.merchant.formats import find_url_fault
from faregate.rules.account import find_address_fault
from faregate.setting_reader import Check, GivenValues, between, describe, read_declarations
from faregate.x402.tokens import ENVIRONMENTS, Environment

PREFIX: Final = "FAREGATE_SERVICE_"
_FILES: Final = {"database_file": "database"}
"""Settings that name a file, and the secret that the file holds."""
DEFAULT_DATABASE: Final = "sqlite:///faregate-service.db"
IN_PROCESS: Final = "service:"
"""`FAREGATE_BASE_URL` of an application that has the service inside its process."""
IN_PROCESS_DATABASE: Final = "sqlite:///faregate.db"
TEST_FACILITATOR: Final = "https://x402.org/facilitator"
TEST_NODE: Final = "https://sepolia.base.org"
"""Both are public, of Base Sepolia, and limited. There is none to name for Base."""
PaymentsMode = Literal["simulated", "facilitator", "direct"]
_check_count: Final = between(1, 1000)
_check_rate: Final = between(0, 1_000_000)


def _check_urls(urls: Sequence[object]) -> str:
    for url in urls:
        fault = find_url_fault(url.partition("?")[0]) if isinstance(url, str) else "is text"
        if fault is not None:
            # The URL itself is not repeated: it may hold an access key.
            return f"must be a URL such as https://host/path, that {fault}"
    return ""


def _check_fee(gwei: Decimal) -> str:
    return "" if gwei.is_finite() and 0 < gwei <= 100_000 else "must be above 0, and at most 100000"


def _check_pay_to(address: str) -> str:
    return find_address_fault(address) or ""


def _matches(pattern: str, form: str) -> Check:
    """Make a check that a text has a form. Nothing of the text is repeated: it may be a secret."""
    return lambda text: "" if re.fullmatch(pattern, text) else f"must be {form}"


_check_hook: Final = _matches(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", "module.function")
_check_gas_key: Final = _matches(r"(file|env|call):.+", "file:PATH, env:NAME or call:module.function")
Urls = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings. Times in seconds, rates per second.

    Raises `ConfigurationError` for settings that do not fit together. `make_settings` also checks each value.
    """

    database: str = describe(
        "where everything is kept: sqlite:///file.db, sqlite:////folder/file.db (four slashes: an absolute "
        "path) or postgresql://user:password@host/name",
        DEFAULT_DATABASE,
        in_repr=False,
    )
    catalog: str | None = describe("apply this catalog before serving (TOML)")
    pay_to: str | None = describe(
        "the address that is paid, for `FAREGATE_BASE_URL=service:`; a catalog names its own",
        check=_check_pay_to,
    )
    payments: PaymentsMode = describe(
        "who moves the money: simulated (nobody), facilitator (x402 facilitators over HTTP) or direct (the "
        "service's own gas account)",
        "simulated",
    )
    facilitator_test: Urls = describe(
        "facilitators for test keys (Base Sepolia), preferred ones first", (), _check_urls
    )
    facilitator_live: Urls = describe(
        "facilitators for live keys (Base), preferred ones first", (), _check_urls
    )
    auth_hook: str | None = describe(
        "function that makes the headers of a request to a facilitator from method and URL: module.function",
        check=_check_hook,
    )
    rpc_test: Urls = describe(
        "RPC URLs of Base Sepolia, preferred ones first; needed for real test payments",
        (),
        _check_urls,
        in_repr=False,
    )
    rpc_live: Urls = describe(
        "RPC URLs of Base, preferred ones first; live keys are refused without one",
        (),
        _check_urls,
        in_repr=False,
    )
    confirmations: int = describe(
        "blocks that must hold a transfer, its own included, before the payment counts as settled",
        1,
        _check_count,
    )
    gas_key: str | None = describe(
        "where the private key of the gas account is: file:PATH, env:NAME, or call:module.function for "
        "a key management system",
        check=_check_gas_key,
    )
    max_fee_gwei: Decimal = describe("highest gas price to pay, for direct", Decimal(5), _check_fee)
    gas_alarm_eth: Decimal = describe(
        "warn when the gas account holds less ETH than this", Decimal("0.001"), between(0, 1000)
    )
    host: str = describe("address to listen on", "127.0.0.1")
    port: int = describe("port to listen on; 0 picks a free one", 8402, between(0, 65535))
    complete_seconds: float = describe(
        "how long a completion waits for its payment to settle; then it is answered 202", 5.0, between(0, 60)
    )
    threads: int = describe(
        "requests that are worked on at the same time, and as many completions beside them", 64, _check_count
    )
    pool_size: int = describe("database connections of one process, at most", 20, _check_count)
    workers: int = describe(
        "settlement workers inside this process; 0 if `faregate service work` runs beside it",
        4,
        between(0, 100),
    )
    metrics_port: int | None = describe(
        "port for /healthz, /readyz and /metrics of `faregate service work`; `serve` has them at its own",
        check=between(1, 65535),
    )
    rate_limit: float = describe(
        "requests a second for each API key, in each process; 0 is no limit", 1000.0, _check_rate
    )
    anonymous_rate_limit: float = describe(
        "requests a second without a valid key from each address, in each process; 0 is no limit",
        200.0,
        _check_rate,
    )
    expose_execution_id: bool = describe("return the execution id of free access: true or false", False)
    log_format: Literal["text", "json"] = describe("format of log lines", "text")
    log_level: Literal["debug", "info", "warning", "error"] = describe("least severe lines to log", "info")

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Return the environments whose keys are accepted. Simulated payments are never live."""
        if self.payments == "simulated":
            return ("test",)
        return tuple(name for name in ENVIRONMENTS if self.get_rpc_urls(name))

    def get_facilitators(self, environment: Environment) -> tuple[str, ...]:
        return self.facilitator_test if environment == "test" else self.facilitator_live

    def get_rpc_urls(self, environment: Environment) -> tuple[str, ...]:
        return self.rpc_test if environment == "test" else self.rpc_live

    def __post_init__(self) -> None:
        if misfit := self._find_misfit():
            words = re.findall(r"\w+", misfit)
            missing = [_name_variable(name) for name in SETTINGS if name in words and not getattr(self, name)]
            hint = f" Set {' or '.join(missing)}." if missing else ""
            raise ConfigurationError(f"the settings do not fit together: {misfit}.{hint}")

    def _find_misfit(self) -> str:
        if self.payments == "simulated":
            return ""
        if not (self.rpc_test or self.rpc_live):
            return f"payments = {self.payments} needs rpc_test or rpc_live: the chain is asked"
        if self.payments == "facilitator":
            return self._find_facilitator_misfit()
        if self.gas_key is None:
            return "payments = direct needs gas_key: file:PATH, env:NAME or call:module.function"
        return ""

    def _find_facilitator_misfit(self) -> str:
        for name in ENVIRONMENTS:
            has_rpc, has_facilitator = bool(self.get_rpc_urls(name)), bool(self.get_facilitators(name))
            if has_facilitator and not has_rpc:
                return f"facilitator_{name} needs rpc_{name}: only the chain proves a payment"
            if has_rpc and not has_facilitator:
                return f"rpc_{name} needs facilitator_{name}, or leave it out"
        return ""


SETTINGS: Final = read_declarations(Settings)
_NAMES: Final = (*SETTINGS, *_FILES)


def make_settings(values: Mapping[str, object]) -> Settings:
    """Check values by name, and make settings of them. Text is parsed. Raises `ConfigurationError`."""
    given = GivenValues(SETTINGS)
    for name, value in values.items():
        _add(given, name, value, name)
    return Settings(**given.values)


# Where settings come from


def list_options(names: Sequence[str] = _NAMES) -> tuple[Option, ...]:
    """List `--config` and the options of these settings. Their text is parsed by `read_settings`."""
    config = Option("--config", "read settings from this TOML file", str, metavar="FILE")
    options = (
        Option(_spell_option(name), _get_help(name), str, metavar=_get_metavar(name)) for name in names
    )
    return (config, *options)


def read_settings(options: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check the settings; `ConfigurationError` says what to change."""
    _check_kubernetes(environ)
    given = GivenValues(SETTINGS)
    for name in _NAMES:
        value = getattr(options, name, None)
        if value is not None:
            _add(given, name, value, _spell_option(name))
    _add_variables(given, environ)
    config = getattr(options, "config", None) or environ.get(f"{PREFIX}CONFIG")
    if config:
        _add_file(given, config)
    if is_in_process(environ):
        # A command beside an application that has the service inside: the same database and chain.
        _add_defaults(given, find_environment(environ))
    return Settings(**given.values)


def find_environment(environ: Mapping[str, str] = os.environ) -> Environment:
    """Find the environment of the application beside which a command runs; test where there is none.

    Raises `ConfigurationError`.
    """
    given = environ.get("FAREGATE_ENVIRONMENT", "").strip() if is_in_process(environ) else ""
    for name in ENVIRONMENTS:
        if name == (given or "test"):
            return name
    raise ConfigurationError(f"FAREGATE_ENVIRONMENT must be test or live, not {given!r}.")


def is_in_process(environ: Mapping[str, str]) -> bool:
    """Whether these variables are those of an application that has the service inside."""
    return environ.get("FAREGATE_BASE_URL", "").strip() == IN_PROCESS


def _add(given: GivenValues, name: str, value: object, typed_name: str) -> None:
    setting = _FILES.get(name, name)
    if name in _FILES and setting not in given.values:
        value = _read_secret(value, typed_name)
    if isinstance(value, str):
        given.add_text(setting, value, typed_name)
    else:
        given.add(setting, value, typed_name)


def read_in_process_settings(
    environment: Environment, environ: Mapping[str, str], lacking: Mapping[str, str]
) -> Settings:
    """Read the settings of a service inside an application, for one environment.

    `lacking` are settings of the application that are missing, and what each is. Raises `ConfigurationError`,
    which lists all that is missing.
    """
    given = _read_environ(environ)
    payments = given.values.get("payments", "facilitator")
    needed = _list_needed(environment, payments)
    missing = {f"{PREFIX}{name.upper()}": text for name, text in needed.items() if name not in given.values}
    missing |= lacking
    if missing:
        lines = (f"  {name}: {text}" for name, text in missing.items())
        taken = "real money" if environment == "live" else f"{payments} payments on the test network"
        raise ConfigurationError("\n".join((f"To take {taken} in this process, set", *lines)))
    _add_defaults(given, environment)
    settings = Settings(**given.values)
    if environment == "live" and settings.payments == "simulated":
        raise ConfigurationError(
            f"{PREFIX}PAYMENTS is simulated, which moves no money, and FAREGATE_ENVIRONMENT is live."
        )
    other = "live" if environment == "test" else "test"
    other_urls: dict[str, Any] = {f"rpc_{other}": (), f"facilitator_{other}": ()}
    return replace(settings, **other_urls)


def read_reader_settings(environment: Environment, environ: Mapping[str, str]) -> Settings:
    """Read the settings of a command that reads what an application with the service inside has written.

    It needs no address that is paid. Raises `ConfigurationError`.
    """
    given = _read_environ(environ)
    _add_defaults(given, environment)
    return Settings(**given.values)


def find_in_process_database(environ: Mapping[str, str]) -> str:
    """Find where a service inside an application keeps everything. Raises `ConfigurationError`."""
    return str(_read_environ(environ).values.get("database", IN_PROCESS_DATABASE))


def _read_environ(environ: Mapping[str, str]) -> GivenValues:
    _check_kubernetes(environ)
    given = GivenValues(SETTINGS)
    _add_variables(given, environ)
    if config := environ.get(f"{PREFIX}CONFIG"):
        _add_file(given, config)
    return given


def _list_needed(environment: Environment, payments: str) -> dict[str, str]:
    """List what a service inside an application has no default for, and what each is."""
    needed: dict[str, str] = {}
    if payments != "simulated":
        needed["pay_to"] = "the address that is paid: that of your wallet, 0x and 40 hex digits"
    if payments == "direct":
        needed["gas_key"] = "where the key of the gas account is: file:PATH, env:NAME or call:module.function"
    if environment == "live":
        needed["database"] = "what keeps all payments: sqlite:////folder/file.db or postgresql://..."
        needed["rpc_live"] = "the URL of a node of Base"
        if payments == "facilitator":
            needed["facilitator_live"] = "the URL of a facilitator that settles on Base"
    return needed


def _add_defaults(given: GivenValues, environment: str) -> None:
    """Add what a service inside an application has where nothing was given."""
    given.add("database", IN_PROCESS_DATABASE, "database")
    given.add("payments", "facilitator", "payments")
    payments = given.values["payments"]
    if environment != "test" or payments == "simulated":
        return
    given.add("rpc_test", (TEST_NODE,), "rpc_test")
    if payments == "facilitator":
        given.add("facilitator_test", (TEST_FACILITATOR,), "facilitator_test")


def _add_variables(given: GivenValues, environ: Mapping[str, str]) -> None:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG" or not value.strip():
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _NAMES:
            variables = [_name_variable(setting) for setting in _NAMES]
            raise ConfigurationError(f"{variable} is not a setting.{nearest_name(variable, variables)}")
        _add(given, name, value.strip(), variable)


def _add_file(given: GivenValues, path: str) -> None:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the settings: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    for name, value in values.items():
        if name not in _NAMES:
            raise ConfigurationError(f"{path}: {name} is not a setting.{nearest_name(name, _NAMES)}")
        _add(given, name, value, f"{name} in {path}")


def _read_secret(path: Any, typed_name: str) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"{typed_name}: cannot read {path}: {reason}") from None


def _check_kubernetes(environ: Mapping[str, str]) -> None:
    # For a Service named `faregate`, Kubernetes sets FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT.
    if environ.get("FAREGATE_PORT", "").startswith("tcp://"):
        raise ConfigurationError(
            "Kubernetes set FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT for its Service named faregate: "
            "put `enableServiceLinks: false` into the pod's spec, or name that Service otherwise"
        )


def spell_variables(text: str) -> str:
    """Name each setting in a text by its environment variable: an application has no options and no file."""
    names = "|".join(name for name in SETTINGS if "_" in name)
    return re.sub(rf"\b({names})\b", lambda matched: _name_variable(matched[0]), text)


def _name_variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _spell_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _get_metavar(name: str) -> str:
    if name in _FILES:
        return "FILE"
    return "URL" if name == "database" else "VALUE"


def _get_help(name: str) -> str:
    if name in _FILES:
        return f"read {_spell_option(_FILES[name])[2:]} from this file"
    description = SETTINGS[name].description
    default = description.default
    shown = f"; default {default}" if default not in (None, ()) else ""
    return f"{description.text}{shown}".replace("%", "%%")
