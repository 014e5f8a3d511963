"""The service that a test talks to: the rules on one of the stores, and the hands to set it up with."""

from typing import Protocol

from faregate.core.models import Response, WireRequest
from faregate.emulator import Account, Revision, SettlementRule
from faregate.rules.clock import Clock
from faregate.rules.payments import Ledger
from faregate.x402.tokens import Environment, SettlementAsset


class MerchantService(Protocol):
    """What tests of the Merchant API ask of a service beside HTTP. `Emulator` has it in memory."""

    account: Account

    def respond(self, request: WireRequest) -> Response: ...
    def revision_id(self, key: str, environment: Environment = "test") -> str: ...
    def resource_id(self, key: str, environment: Environment = "test") -> str: ...
    def require_payment(self, key: str, required: bool = True) -> None: ...
    def edit_resource(
        self,
        key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        image_url: str | None = None,
    ) -> None: ...
    def archive(self, key: str) -> None: ...
    def publish(self, key: str, revision: Revision) -> None: ...
    def settle_after(self, target: str, settlement_rule: SettlementRule | None) -> None: ...
    def settle(self, transaction_id: str) -> None: ...
    def fail(self, transaction_id: str) -> None: ...
    def balance(
        self, address: str, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> int: ...
    def set_balance(
        self, address: str, balance: int, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> None: ...


class Build(Protocol):
    """Builds a service on the store of the test. `ledger` replaces the simulated ledger."""

    def __call__(
        self,
        account: Account | None = None,
        *,
        clock: Clock,
        ledger: Ledger | None = None,
        expose_execution_id: bool = False,
        allow_live: bool = False,
    ) -> MerchantService: ...
