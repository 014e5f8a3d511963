"""The settings of the service: one model, whose fields are environment variables, options and TOML keys.

Options come before `FAREGATE_SERVICE_*` variables, and these before a TOML file. A message names a setting as
the person typed it: `--port`, `FAREGATE_SERVICE_PORT`, or `port` in the file.

`database` may hold a password, and an RPC URL often holds an access key: they are in no repr and in no
message. The key of the gas account is never a setting, only where it is.
"""

import os
import re
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic import StringConstraints as Text

from faregate.errors import ConfigurationError, nearest_name
from faregate.merchant.formats import find_url_fault
from faregate.rules.config import FrozenModel
from faregate.x402.tokens import ENVIRONMENTS, Environment

PREFIX: Final = "FAREGATE_SERVICE_"
_FILES: Final = {"database_file": "database"}
"""Settings that name a file, and the secret that the file holds."""
_FORMS: Final = {
    "auth_hook": "must be module.function",
    "gas_key": "must be file:PATH, env:NAME or call:module.function",
}
"""What to say instead of a pattern."""
DEFAULT_DATABASE: Final = "sqlite:///faregate-service.db"
PaymentsMode = Literal["simulated", "facilitator", "direct"]
Rate = Annotated[float, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=1000)]


def _split(given: object) -> object:
    """Split text such as an environment variable at commas and spaces."""
    return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given


def _check_url(url: Any) -> Any:
    if isinstance(url, str) and (fault := find_url_fault(url.partition("?")[0])) is not None:
        # The URL itself is not repeated: it may hold an access key.
        raise ValueError(f"must be a URL such as https://host/path, that {fault}")
    return url


Urls = Annotated[tuple[Annotated[str, BeforeValidator(_check_url)], ...], BeforeValidator(_split)]
Hook = Annotated[str, Text(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
"""A function, as `module.function`."""
GasKey = Annotated[str, Text(pattern=r"^(file|env|call):.+$")]


def _describe(text: str, default: Any = None, *, in_repr: bool = True) -> Any:
    """Declare a setting."""
    return Field(default=default, description=text, repr=in_repr)


class Settings(FrozenModel):
    """Checked settings. Times in seconds, rates per second."""

    database: SecretStr = _describe(
        "where everything is kept: sqlite:///file.db, sqlite:////folder/file.db (four slashes: an absolute "
        "path) or postgresql://user:password@host/name",
        SecretStr(DEFAULT_DATABASE),
        in_repr=False,
    )
    catalog: str | None = _describe("apply this catalog before serving (TOML)")
    payments: PaymentsMode = _describe(
        "who moves the money: simulated (nobody), facilitator (x402 facilitators over HTTP) or direct (the "
        "service's own gas account)",
        "simulated",
    )
    facilitator_test: Urls = _describe("facilitators for test keys (Base Sepolia), preferred ones first", ())
    facilitator_live: Urls = _describe("facilitators for live keys (Base), preferred ones first", ())
    auth_hook: Hook | None = _describe(
        "function that makes the headers of a request to a facilitator from method and URL: module.function"
    )
    rpc_test: Urls = _describe(
        "RPC URLs of Base Sepolia, preferred ones first; needed for real test payments", (), in_repr=False
    )
    rpc_live: Urls = _describe(
        "RPC URLs of Base, preferred ones first; live keys are refused without one", (), in_repr=False
    )
    confirmations: Annotated[int, Field(ge=1, le=1000)] = _describe(
        "blocks that must hold a transfer, its own included, before the payment counts as settled", 1
    )
    gas_key: GasKey | None = _describe(
        "where the private key of the gas account is: file:PATH, env:NAME, or call:module.function for "
        "a key management system"
    )
    max_fee_gwei: Annotated[Decimal, Field(gt=0, le=100_000)] = _describe(
        "highest gas price to pay, for direct", Decimal(5)
    )
    gas_alarm_eth: Annotated[Decimal, Field(ge=0, le=1000)] = _describe(
        "warn when the gas account holds less ETH than this", Decimal("0.001")
    )
    host: str = _describe("address to listen on", "127.0.0.1")
    port: Annotated[int, Field(ge=0, le=65535)] = _describe("port to listen on; 0 picks a free one", 8402)
    complete_seconds: Annotated[float, Field(ge=0, le=60)] = _describe(
        "how long a completion waits for its payment to settle; then it is answered 202", 5.0
    )
    threads: Count = _describe(
        "requests that are worked on at the same time, and as many completions beside them", 64
    )
    pool_size: Count = _describe("database connections of one process, at most", 20)
    workers: Annotated[int, Field(ge=0, le=100)] = _describe(
        "settlement workers inside this process; 0 if `faregate service work` runs beside it", 4
    )
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = _describe(
        "port for /healthz, /readyz and /metrics of `faregate service work`; `serve` has them at its own"
    )
    rate_limit: Rate = _describe("requests a second for each API key, in each process; 0 is no limit", 1000.0)
    anonymous_rate_limit: Rate = _describe(
        "requests a second without a valid key from each address, in each process; 0 is no limit", 200.0
    )
    expose_execution_id: bool = _describe("return the execution id of free access: true or false", False)
    log_format: Literal["text", "json"] = _describe("format of log lines", "text")
    log_level: Literal["debug", "info", "warning", "error"] = _describe("least severe lines to log", "info")

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

    @model_validator(mode="after")
    def _check_payments(self) -> Self:
        if self.payments == "simulated":
            return self
        if not (self.rpc_test or self.rpc_live):
            raise ValueError(f"payments = {self.payments} needs rpc_test or rpc_live: the chain is asked")
        if self.payments == "facilitator":
            self._check_facilitators()
        elif self.gas_key is None:
            raise ValueError("payments = direct needs gas_key: file:PATH, env:NAME or call:module.function")
        return self

    def _check_facilitators(self) -> None:
        for name in ENVIRONMENTS:
            has_rpc, has_facilitator = bool(self.get_rpc_urls(name)), bool(self.get_facilitators(name))
            if has_facilitator and not has_rpc:
                raise ValueError(f"facilitator_{name} needs rpc_{name}: only the chain proves a payment")
            if has_rpc and not has_facilitator:
                raise ValueError(f"rpc_{name} needs facilitator_{name}, or leave it out")


# Where settings come from

_KNOWN: Final = (*Settings.model_fields, *_FILES)


@dataclass(slots=True)
class _Given:
    """Values by setting, and how each was spelt by the person who gave it."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    spelling: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, name: str, value: Any, spelling: str) -> None:
        """Add a value unless a preferred source gave one already."""
        setting = _FILES.get(name, name)
        if setting not in self.values:
            self.values[setting] = _read_secret(value, spelling) if name in _FILES else value
            self.spelling[setting] = spelling


def add_options(parser: ArgumentParser, names: Sequence[str] = _KNOWN) -> None:
    """Add `--config` and an option for each of these settings."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="read settings from this TOML file")
    for name in names:
        add(_spell_option(name), dest=name, metavar=_get_metavar(name), help=_get_help(name))


def read_settings(options: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check the settings; `ConfigurationError` says what to change."""
    _check_kubernetes(environ)
    given = _Given()
    for name in _KNOWN:
        value = getattr(options, name, None)
        if value is not None:
            given.add(name, value, _spell_option(name))
    _add_variables(given, environ)
    config = getattr(options, "config", None) or environ.get(f"{PREFIX}CONFIG")
    if config:
        _add_file(given, config)
    return _build_settings(given)


def _add_variables(given: _Given, environ: Mapping[str, str]) -> None:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG" or not value.strip():
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _KNOWN:
            known = [f"{PREFIX}{one.upper()}" for one in _KNOWN]
            raise ConfigurationError(f"{variable} is not a setting.{nearest_name(variable, known)}")
        given.add(name, value.strip(), variable)


def _add_file(given: _Given, path: str) -> None:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the settings: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    for name, value in values.items():
        if name not in _KNOWN:
            raise ConfigurationError(f"{path}: {name} is not a setting.{nearest_name(name, _KNOWN)}")
        given.add(name, value, f"{name} in {path}")


def _build_settings(given: _Given) -> Settings:
    try:
        return Settings.model_validate(given.values)
    except ValidationError as error:
        # Neither input nor context: they may hold a secret.
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    message = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:
        raise ConfigurationError(
            f"the settings do not fit together: {message}.{_name_missing(given, message)}"
        )
    name = str(fault["loc"][0])
    if fault["type"] == "string_pattern_mismatch":
        message = _FORMS[name]
    raise ConfigurationError(f"{given.spelling[name]}: {message}")


def _name_missing(given: _Given, message: str) -> str:
    """Name the variables of the missing settings in this message."""
    words = re.findall(r"\w+", message)
    missing = [f"{PREFIX}{name.upper()}" for name in _KNOWN if name in words and name not in given.values]
    return f" Set {' or '.join(missing)}." if missing else ""


def _read_secret(path: Any, spelling: str) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"{spelling}: cannot read {path}: {reason}") from None


def _check_kubernetes(environ: Mapping[str, str]) -> None:
    # For a Service named `faregate`, Kubernetes sets FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT.
    if environ.get("FAREGATE_PORT", "").startswith("tcp://"):
        raise ConfigurationError(
            "Kubernetes set FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT for its Service named faregate: "
            "put `enableServiceLinks: false` into the pod's spec, or name that Service otherwise"
        )


def _spell_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _get_metavar(name: str) -> str:
    if name in _FILES:
        return "FILE"
    return "URL" if name == "database" else "VALUE"


def _get_help(name: str) -> str:
    if name in _FILES:
        return f"read {_spell_option(_FILES[name])[2:]} from this file"
    one = Settings.model_fields[name]
    default = one.default.get_secret_value() if name == "database" else one.default
    shown = f"; default {default}" if default not in (None, ()) else ""
    return f"{one.description}{shown}".replace("%", "%%")
