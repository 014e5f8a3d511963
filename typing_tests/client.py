"""What a type checker must know about the client. Never run; every line is a claim."""

from typing import assert_type

import httpx

from faregate.core.models import Headers, Response
from faregate.merchant.api_key import ApiKey
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.models import (
    AccessDecision,
    AccessRequest,
    ContractsDocument,
    Page,
    Payer,
    Resource,
    ResourceExecutionCompleted,
    ResourceExecutionCompleteRequest,
    SucceededCompleteRequest,
    Transaction,
    TransactionDetail,
)
from faregate.merchant.requests import Call
from faregate.merchant.wire import Completed
from faregate.transports import AsyncTransport, Transport


def blocking(
    client: MerchantClient,
    access: AccessRequest,
    succeeded: SucceededCompleteRequest,
    execution: ResourceExecutionCompleteRequest,
    call: Call[int],
) -> None:
    assert_type(client.access(access), AccessDecision)
    assert_type(client.complete_transaction("txn", succeeded, proof="p"), Completed)
    assert_type(client.get_transaction("txn"), TransactionDetail)
    assert_type(client.list_transactions(status="settling", page=2), Page[Transaction])
    assert_type(client.list_payers(order="oldest"), Page[Payer])
    assert_type(client.list_resources(archived=True), Page[Resource])
    assert_type(client.list_contracts(include_integration_key=True), ContractsDocument)
    assert_type(client.complete_resource_execution("rex", execution), ResourceExecutionCompleted)
    assert_type(next(client.iter_transactions()), Transaction)
    assert_type(client.send(call), int)
    assert_type(client.list_payers().items[0].id, str)
    assert_type(client.list_payers().items[0].identifier, str | None)
    assert_type(client.list_transactions().items[0].status, str | None)
    assert_type(client.list_transactions().items[0].settled_atomic, int | None)
    # Wrong words are found before anything runs.
    client.list_payers(status="settling")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    client.list_payers(order="latest")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    client.access(access, b"proof")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def awaiting(client: AsyncMerchantClient, access: AccessRequest, call: Call[int]) -> None:
    assert_type(await client.access(access, proof=None), AccessDecision)
    assert_type(await client.list_transactions(), Page[Transaction])
    assert_type(await client.send(call), int)
    async for payer in client.iter_payers(page_size=10):
        assert_type(payer, Payer)


class Own:
    """A transport of one's own, both colours."""

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        raise NotImplementedError

    def close(self) -> None: ...

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        raise NotImplementedError

    async def aclose(self) -> None: ...


def construction() -> None:
    own = Own()
    protocols: tuple[Transport, AsyncTransport] = (own, own)
    MerchantClient("svc_test_x", "https://a", transport=protocols[0], timeout=3)
    AsyncMerchantClient(ApiKey("svc_test_x"), base_url="https://a", transport=protocols[1])
    MerchantClient("svc_test_x", "https://a", transport=httpx.HTTPTransport())
    AsyncMerchantClient("svc_test_x", "https://a", transport=httpx.AsyncHTTPTransport())
    MerchantClient("svc_test_x", "https://a", transport="curl")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with MerchantClient("svc_test_x", "https://a") as client:
        assert_type(client, MerchantClient)
