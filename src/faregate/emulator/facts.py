"""What a call is about: which operation, whose key, which resource, payer and transaction. Pure.

Read from the request and from what the service knows by now; what cannot be told is None.
"""

from dataclasses import dataclass, replace
from typing import Final

from eth_utils.address import to_checksum_address
from pydantic import TypeAdapter

from faregate.core.models import WireRequest
from faregate.merchant.requests import AccessRequest
from faregate.merchant.types import Environment
from faregate.service.app import Service
from faregate.service.calls import Call
from faregate.service.keys import key_of
from faregate.service.operations.access import PROOF_HEADER
from faregate.service.replies import Refusal
from faregate.service.routes import Operation, find_route
from faregate.service.state import Books
from faregate.x402.models import Payment
from faregate.x402.proofs import BadProof, read_payment

_request: Final[TypeAdapter[AccessRequest]] = TypeAdapter(AccessRequest)


@dataclass(frozen=True, slots=True)
class Facts:
    """`key` is an API key the service lets in; `environment` is its own.

    `resource` is an integration key. `payer` is a checksum address: the transaction's, or what the proof
    says, whoever signed it. `transaction` is what the path names, known or not, or what the proof of an
    access already pays for.
    """

    operation: Operation | None = None
    key: str | None = None
    environment: Environment | None = None
    resource: str | None = None
    payer: str | None = None
    transaction: str | None = None


def facts_of(service: Service, request: WireRequest) -> Facts:
    """Never raises, whatever the request is. Not free: it reads the proof and the body."""
    path, _, query = request.path.partition("?")
    try:
        route, identifier = find_route(request.method, path)
    except Refusal:
        return Facts()
    call = Call(identifier, query, request.headers, request.body or b"")
    payment = _payment(call)
    facts = Facts(route.operation, payer=None if payment is None else to_checksum_address(payment.payer))
    try:
        key = key_of(request.headers, service.keys, service.allow_live)
    except Refusal:
        return facts
    facts = replace(facts, key=key.key, environment=key.environment)
    return _with_records(facts, service.books[key.environment], call, payment)


def _with_records(facts: Facts, books: Books, call: Call, payment: Payment | None) -> Facts:
    match facts.operation:
        case "access":
            return _of_access(facts, books, call, payment)
        case "complete" | "transaction":
            return _of_transaction(facts, books, call.identifier)
        case "execution":
            execution = books.executions.get(call.identifier)
            return facts if execution is None else _of_revision(facts, books, execution.revision_id)
        case _:
            return facts


def _of_access(facts: Facts, books: Books, call: Call, payment: Payment | None) -> Facts:
    try:
        revision_id = call.body_as(_request).revision_id
    except Refusal:
        return facts
    listing = books.catalog.selling(revision_id)
    if listing is None:
        return facts
    token = next(one.token for one in listing.revisions if one.id == revision_id)
    used = None if payment is None else books.user_of_token(token, payment)
    return replace(facts, resource=listing.plan.key, transaction=None if used is None else used.id)


def _of_transaction(facts: Facts, books: Books, identifier: str) -> Facts:
    record = books.transactions.get(identifier)
    if record is None:
        return replace(facts, transaction=identifier)
    resource = record.sale.listing.plan.key
    return replace(facts, resource=resource, payer=record.payer.identifier, transaction=identifier)


def _of_revision(facts: Facts, books: Books, revision_id: str) -> Facts:
    listing = books.catalog.selling(revision_id)
    return facts if listing is None else replace(facts, resource=listing.plan.key)


def _payment(call: Call) -> Payment | None:
    try:
        proof = call.only_header(PROOF_HEADER)
        return None if proof is None else read_payment(proof)
    except (BadProof, Refusal):
        return None
