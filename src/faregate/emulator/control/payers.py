"""`/_emulator/tenants/{name}`: its `payers`, their `balances`, and `test-payments`, their purchases."""

from dataclasses import replace
from typing import Final

from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.core.models import Response as WireResponse
from faregate.core.models import WireRequest, header_values
from faregate.emulator.calls import parse_fields
from faregate.emulator.control.common import (
    TENANT,
    ControlError,
    get_emulator,
    json_response,
    parse_body,
    parse_environment,
)
from faregate.emulator.emulator import Emulator
from faregate.emulator.wallet import Wallet
from faregate.merchant import wire
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.merchant.types import AtomicAmount
from faregate.rules.account import FrozenModel
from faregate.rules.published_payers import TEST_PAYERS, list_special_payers
from faregate.rules.records import Status
from faregate.x402.tokens import CURRENCIES, Environment, SettlementAsset

Balances = dict[SettlementAsset, AtomicAmount]
_balances: TypeAdapter[Balances] = TypeAdapter(Balances)
_NAMES = {payer.address: payer.name for payer in TEST_PAYERS.values()}


async def list_payers(request: Request) -> Response:
    """List payers with their balances: those who paid, those in the account file, and the test payers."""
    emulator, environment = get_emulator(request), parse_environment(request)
    paid = emulator.read_state(
        lambda service, _: [payer.identifier for payer in service.environments[environment].observed]
    )
    configured = [payer.address for payer in list_special_payers(emulator.account, environment)]
    addresses = dict.fromkeys((*paid, *configured))
    return json_response({"payers": [_format_payer(emulator, address, environment) for address in addresses]})


async def put_balances(request: Request) -> Response:
    """Set balances in atomic units, such as {"USDC": "100"}; other assets stay."""
    emulator, environment = get_emulator(request), parse_environment(request)
    address: str = request.path_params["address"]
    for asset, balance in (await parse_body(request, _balances)).items():
        emulator.set_balance(address, balance, asset, environment)
    return json_response(_format_payer(emulator, address, environment))


def _format_payer(emulator: Emulator, address: str, environment: Environment) -> dict[str, object]:
    balances = {asset: str(emulator.balance(address, asset, environment)) for asset in CURRENCIES}
    name = _NAMES.get(address) if environment == "test" else None
    return {"address": address, "name": name, "balances": balances}


class TestPayment(FrozenModel):
    """`resource` is an integration key, `payer` the name of a test payer."""

    __test__ = False

    resource: str
    payer: str = "good"


class TestPaymentResult(BaseModel):
    """`message` says why there is no transaction."""

    __test__ = False

    transaction: str | None = None
    status: Status | None = None
    message: str | None = None


_test_payment: TypeAdapter[TestPayment] = TypeAdapter(TestPayment)


async def make_test_payment(request: Request) -> Response:
    """Buy `resource` once, as `payer`, a test payer; the calls are those of a seller's application."""
    body = await parse_body(request, _test_payment)
    return json_response(_buy(get_emulator(request), body), 201)


def _buy(emulator: Emulator, body: TestPayment) -> TestPaymentResult:
    """Make the calls of one sale: the price, access with the proof, complete."""
    wallet = Wallet.test(body.payer, clock=emulator.clock)
    sold = next((resource for resource in emulator.account.resources if resource.key == body.resource), None)
    if sold is None:
        raise ControlError(
            422, "invalid_request", f"resource: nothing with the key {body.resource!r} is sold"
        )
    revision, rules = emulator.revision_id(sold.key), sold.revisions[-1]
    resource = AccessResource(url=f"https://seller.example/{sold.key}", mime_type="application/json")
    access = AccessRequest(revision_id=revision, resource=resource, settlement_asset=rules.asset)

    unpaid_reply = _send(emulator, wire.access(access).request)
    instructions = header_values(unpaid_reply.headers, "payment-required")
    if unpaid_reply.status != 402 or not instructions:
        return TestPaymentResult(message=_describe(unpaid_reply, "the price was not asked for"))
    proof = wallet.pay(instructions[0])
    access_reply = _send(emulator, wire.access(access, proof).request)
    transaction = parse_fields(access_reply).get("transaction_id")
    if access_reply.status != 200 or not isinstance(transaction, str):
        return TestPaymentResult(message=_describe(access_reply, "the payment was refused"))
    outcome = SucceededCompleteRequest(
        revision_id=revision,
        values={value.name: "1" for value in rules.values},
        resource_execution=ResourceExecutionMetadata(
            duration_ms=0,
            response_status=200,
            response_size_bytes=2,
            response_content_type="application/json",
        ),
    )
    completed = _send(emulator, wire.complete_transaction(transaction, outcome, proof).request)
    if completed.status not in (200, 202):
        return TestPaymentResult(
            transaction=transaction, message=_describe(completed, "complete was refused")
        )
    status = parse_fields(completed).get("status")
    return TestPaymentResult.model_validate({"transaction": transaction, "status": status})


def _send(emulator: Emulator, request: WireRequest) -> WireResponse:
    key = emulator.account.first_key("test")
    if key is None:
        raise ControlError(422, "invalid_request", "the account has no key for test payments")
    headers = (*request.headers, ("Authorization", f"Bearer {key}"))
    return emulator.deliver(replace(request, headers=headers)).response


def _describe(response: WireResponse, otherwise: str) -> str:
    """The service's own message, or what happened with the status."""
    message = parse_fields(response).get("message")
    return str(message) if message else f"{otherwise}: the service answered {response.status}"


ROUTES: Final = (
    Route(f"{TENANT}/payers", list_payers, methods=["GET"]),
    Route(f"{TENANT}/balances/{{address}}", put_balances, methods=["PUT"]),
    Route(f"{TENANT}/test-payments", make_test_payment, methods=["POST"]),
)
