"""`/_emulator/tenants/{name}`: its `payers`, and their `balances` on the simulated ledger."""

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import (
    TENANT,
    get_emulator,
    json_response,
    parse_body,
    parse_environment,
)
from faregate.emulator.emulator import Emulator
from faregate.merchant.types import AtomicAmount
from faregate.service.published_payers import TEST_PAYERS, list_special_payers
from faregate.x402.tokens import CURRENCIES, Environment, SettlementAsset

Balances = dict[SettlementAsset, AtomicAmount]
_balances: TypeAdapter[Balances] = TypeAdapter(Balances)
_NAMES = {payer.address: payer.name for payer in TEST_PAYERS.values()}


def build_payer_routes() -> list[Route]:
    return [
        Route(f"{TENANT}/payers", list_payers, methods=["GET"]),
        Route(f"{TENANT}/balances/{{address}}", put_balances, methods=["PUT"]),
    ]


async def list_payers(request: Request) -> Response:
    """List payers with their balances: those who paid, those in the account file, and the test payers."""
    emulator, environment = get_emulator(request), parse_environment(request)
    paid = emulator.look(
        lambda service, _: [one.identifier for one in service.environments[environment].observed]
    )
    configured = [payer.address for payer in list_special_payers(emulator.account, environment)]
    addresses = dict.fromkeys((*paid, *configured))
    return json_response({"payers": [_format_payer(emulator, one, environment) for one in addresses]})


async def put_balances(request: Request) -> Response:
    """Set balances in atomic units, such as {"USDC": "100"}; other assets stay."""
    emulator, environment = get_emulator(request), parse_environment(request)
    address: str = request.path_params["address"]
    for asset, balance in (await parse_body(request, _balances)).items():
        emulator.fund(address, balance, asset, environment)
    return json_response(_format_payer(emulator, address, environment))


def _format_payer(emulator: Emulator, address: str, environment: Environment) -> dict[str, object]:
    balances = {asset: str(emulator.balance(address, asset, environment)) for asset in CURRENCIES}
    name = _NAMES.get(address) if environment == "test" else None
    return {"address": address, "name": name, "balances": balances}
