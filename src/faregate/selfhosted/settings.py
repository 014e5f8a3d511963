"""The settings of the service: one model, whose fields are environment variables, options and TOML keys.

`settings_sources` reads them. `database` may hold a password, and an RPC URL often holds an access key: they
are in no repr and in no message.
The key of the gas account is never a setting, only where it is.
"""

from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic import StringConstraints as Text

from faregate.merchant.formats import find_url_fault
from faregate.service.config import FrozenModel
from faregate.x402.tokens import ENVIRONMENTS, Environment

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
        "where everything is kept: sqlite:///file.db or postgresql://user:password@host/name",
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
    threads: Count = _describe("requests that are worked on at the same time", 64)
    pool_size: Count = _describe("database connections of one process, at most", 20)
    workers: Annotated[int, Field(ge=0, le=100)] = _describe(
        "settlement workers inside this process; 0 if `faregate service work` runs beside it", 4
    )
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = _describe(
        "port for the metrics of `faregate service work`; `serve` has them at /metrics"
    )
    rate_limit: Rate = _describe("requests a second for each API key, in each process; 0 is no limit", 1000.0)
    anonymous_rate_limit: Rate = _describe(
        "requests a second without a valid key, in each process; 0 is no limit", 200.0
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
