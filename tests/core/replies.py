"""Replies of the service, whole."""

from faregate.core.models import Response, WireRequest
from faregate.core.results import AccessGranted
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.merchant.client import MerchantClient
from faregate.merchant.interpret import parse_access
from faregate.merchant.models import AccessRequest, AccessResource, SucceededCompleteRequest
from faregate.merchant.requests import Call
from faregate.merchant.wire import access, complete_transaction, get_transaction


def bought() -> tuple[str, Response, Response]:
    """A real sale on the emulator: its transaction, the reply to complete, the reply to GET."""
    emulator = Emulator()
    client = MerchantClient(TEST_KEY, "http://service.example", transport=EmbeddedTransport(emulator))

    def raw(request: WireRequest) -> Response:
        return client.send(Call(request, lambda reply: reply))

    revision = emulator.revision_id("daily_report")
    resource = AccessResource(url="https://seller.example/a", mime_type="text/plain")
    asked = AccessRequest(revision_id=revision, resource=resource, settlement_asset="USDC")
    proof = Wallet().pay(raw(access(asked).request).first("payment-required") or "")
    granted = parse_access(raw(access(asked, proof).request))
    assert isinstance(granted, AccessGranted)
    body = SucceededCompleteRequest(revision_id=revision, values={})
    completed = raw(complete_transaction(granted.transaction_id, body, proof).request)
    return granted.transaction_id, completed, raw(get_transaction(granted.transaction_id).request)


SOLD, COMPLETED, DETAIL = bought()
