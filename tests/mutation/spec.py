"""One way to break the rule of each row of `docs/contributing/spec-coverage.md`: a test that the row names must fail.

A row is found by its heading and the beginning of its first cell.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.rules import Mutant

PAGE: Final = Path(__file__).parents[2] / "docs" / "contributing" / "spec-coverage.md"
_NAMED: Final = re.compile(r"`(test_\w+\.py::test_\w+)`")


@dataclass(frozen=True)
class Row:
    heading: str
    line: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    """Every row of the page, in its order."""
    found, heading = list[Row](), ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        elif line.startswith("|") and not line.startswith(("|---", "| Line ", "| Rule ")):
            first, _, rest = line.strip("| ").partition(" | ")
            tests = tuple(f"tests/emulator/{name}" for name in _NAMED.findall(rest))
            found.append(Row(heading, first, tests))
    return found


@dataclass(frozen=True)
class Break:
    """The text `old`, which stands once in `file`, makes way for `new`."""

    heading: str
    line: str
    file: str
    old: str
    new: str


def spec_mutants() -> list[Mutant]:
    """A mutant for each break, with the tests of its row. Raises `ValueError` for a break without one row."""
    found = list[Mutant]()
    for number, one in enumerate(BREAKS, 1):
        row = row_of(one)
        name = f"spec-{number:03} {row.heading}: {row.line}"
        found.append(Mutant(name, one.file, one.old, one.new, row.tests))
    return found


def row_of(broken: Break) -> Row:
    """The one row that a break is for: its line exactly, else the row whose line begins so."""
    under = [row for row in rows() if row.heading.startswith(broken.heading)]
    exact = [row for row in under if row.line == broken.line]
    [found] = exact or [row for row in under if row.line.startswith(broken.line)]
    return found


_AT: Final = "src/faregate/emulator/"
_ACCESS, _COMPLETE, _CHECKS = _AT + "access.py", _AT + "complete.py", _AT + "checks.py"
_PROOFS, _INSTRUCTIONS, _RECEIPTS = _AT + "proofs.py", _AT + "instructions.py", _AT + "receipts.py"
_EXECUTIONS, _READS, _LISTS, _QUERIES = (
    _AT + "executions.py",
    _AT + "reads.py",
    _AT + "lists.py",
    _AT + "queries.py",
)
_KEYS, _ROUTES, _SERVICE, _CALLS, _REPLIES = (
    _AT + "keys.py",
    _AT + "routes.py",
    _AT + "service.py",
    _AT + "calls.py",
    _AT + "replies.py",
)
_SETTLING, _LEDGER, _CATALOG, _TOKENS, _BOOKS = (
    _AT + "settling.py",
    _AT + "ledger.py",
    _AT + "catalog.py",
    _AT + "tokens.py",
    _AT + "books.py",
)
_STATE, _GOODS, _IDENTIFIERS, _TIMELINE = (
    _AT + "state.py",
    _AT + "goods.py",
    _AT + "identifiers.py",
    _AT + "timeline.py",
)
_TYPES, _REQUESTS, _CONTRACTS = (
    "src/faregate/merchant/types.py",
    "src/faregate/merchant/models.py",
    "src/faregate/merchant/models.py",
)
_ANSWERS, _WIRE = "src/faregate/merchant/models.py", "src/faregate/merchant/wire.py"

BREAKS: Final = (
    # What the service does
    Break(
        "What the service",
        "1. no proof",
        _ACCESS,
        'return Refusal(402, "payment_required"',
        'return Refusal(402, "payment_missing"',
    ),
    Break(
        "What the service",
        "2. with proof",
        _ACCESS,
        "return _decision(AccessDecision(transaction_id=record.id))",
        "return _decision(AccessDecision(transaction_id=record.id), 202)",
    ),
    Break("What the service", "3. ", _COMPLETE, "if record.payment.header != payment.header:", "if False:"),
    Break(
        "What the service",
        "4. ",
        _COMPLETE,
        "        return answer(result, status=202, headers=(SOON,))",
        "        return answer(result, headers=(SOON,))",
    ),
    Break(
        "What the service",
        "5. ",
        _RECEIPTS,
        "receipt = record.settled.receipt if record.settled else None",
        "receipt = None",
    ),
    Break(
        "What the service",
        "6. ",
        _COMPLETE,
        "_check_values(request, record.sale.revision.rules)",
        "_check_values(request, books.catalog.listings[record.sale.listing.plan.key].active.rules)",
    ),
    Break("What the service", "7. ", _TOKENS, '"EURC": "EUR"}', '"EURC": "USD"}'),
    Break(
        "What the service",
        "8. ",
        _CATALOG,
        'id=derived_id("acr", made, environment, *place)',
        'id=derived_id("acr", made, *place)',
    ),
    Break("What the service", "9. ", _EXECUTIONS, "record.metadata = request.resource_execution", "pass"),
    Break(
        "What the service",
        "10. ",
        _ACCESS,
        "if not listing.require_payment:",
        "if not listing.plan.require_payment:",
    ),
    Break(
        "What the service",
        "bodies are",
        _REPLIES,
        'JSON_TYPE = ("Content-Type", "application/json")',
        'JSON_TYPE = ("Content-Type", "text/json")',
    ),
    # Resources and their fields
    Break("Resources", "identifier format", _IDENTIFIERS, "0b10 << 62", "0b11 << 62"),
    Break(
        "Resources",
        "AtomicAmount",
        _TYPES,
        "MAX_ATOMIC: Final = 10**30 - 1",
        "MAX_ATOMIC: Final = 10**29 - 1",
    ),
    Break(
        "Resources", "EvmAddress", _TOKENS, 'return f"eip155:{self.chain}"', 'return f"eip155-{self.chain}"'
    ),
    Break(
        "Resources",
        "PayerIdentifier",
        _BOOKS,
        'known or PayerRecord(self.ids("pyr", now), payer, now)',
        'known or PayerRecord(self.ids("pyr", now), payer.lower(), now)',
    ),
    Break("Resources", "Transaction", _RECEIPTS, "authorized_at=record.created_at,", "authorized_at=None,"),
    Break("Resources", "Transaction detail", _RECEIPTS, 'id=books.ids("rct", at)', 'id=books.ids("txn", at)'),
    Break(
        "Resources",
        "Completion result",
        _RECEIPTS,
        "        transaction_hash=done.transaction_hash if done else None,\n    )\n\n\ndef item",
        "        transaction_hash=done.transaction_hash if done else record.id,\n    )\n\n\ndef item",
    ),
    Break(
        "Resources",
        "PaymentResponse",
        _INSTRUCTIONS,
        '"transaction": transaction_hash',
        '"transactionHash": transaction_hash',
    ),
    Break(
        "Resources",
        "Access decision",
        _ACCESS,
        'hidden = {"resource_execution_id"} if decision.resource_execution_id is None else None',
        "hidden = None",
    ),
    Break(
        "Resources",
        "Payer",
        _LISTS,
        "last_transaction_at=payer.last_transaction_at(query.as_of)",
        "last_transaction_at=payer.created_at",
    ),
    Break(
        "Resources",
        "Resource",
        _LISTS,
        "        description=listing.plan.description,\n        image_url",
        "        image_url",
    ),
    Break(
        "Resources",
        "Access request resource",
        _TYPES,
        '"(?:application|audio|font|',
        '"(?:application|audio|',
    ),
    Break(
        "Resources",
        "Resource execution metadata",
        _REQUESTS,
        "Status = Annotated[int, Field(strict=True, ge=100, le=599)",
        "Status = Annotated[int, Field(strict=True, ge=100)",
    ),
    Break(
        "Resources",
        "Contract revision",
        _READS,
        "settlement_asset=revision.token.symbol",
        'settlement_asset="USDC"',
    ),
    Break(
        "Resources",
        "integration key",
        _READS,
        'hidden = set[str]() if keys else {"integration_key", "revision_key"}',
        "hidden = set[str]()",
    ),
    Break("Resources", "Contracts document", _READS, "        paths={},", '        paths={"/": {}},'),
    Break(
        "Resources",
        "List envelope",
        _LISTS,
        "    return answer_value(shown)",
        '    return answer_value({**shown, "page": query.page})',
    ),
    # States and transitions
    Break("States", "state before", _BOOKS, 'history=[(now, "authorized")]', 'history=[(now, "settling")]'),
    Break(
        "States",
        "open, outcome failed",
        _COMPLETE,
        "fail(books, record, books.timeline.stamp())",
        "submit(books, record)",
    ),
    Break(
        "States",
        "open, outcome succeeded, finished",
        _LEDGER,
        "self.fund(terms.token, payment.payer, left)",
        "pass",
    ),
    Break(
        "States",
        "open, outcome succeeded, not",
        _SETTLING,
        "record.move(plan.via, at)",
        'record.move("succeeded", at)',
    ),
    Break(
        "States",
        "transitions after",
        _SETTLING,
        "if record.reads >= plan.after_reads:",
        "if record.reads > plan.after_reads:",
    ),
    Break("States", "final states", _COMPLETE, "if accepted.outcome != request.outcome:", "if False:"),
    # POST /access
    Break(
        "POST /access",
        "headers",
        _CALLS,
        '        if len(values) > 1:\n            raise invalid(f"the header',
        '        if False:\n            raise invalid(f"the header',
    ),
    Break(
        "POST /access",
        "body",
        _REQUESTS,
        "    settlement_asset: SettlementAsset\n",
        '    settlement_asset: SettlementAsset = "USDC"\n',
    ),
    Break("POST /access", "`revision_id`", _ACCESS, "if revision is not listing.active:", "if False:"),
    Break(
        "POST /access",
        "`settlement_asset`",
        _ACCESS,
        "if revision.token.symbol != request.settlement_asset:",
        "if False:",
    ),
    Break(
        "POST /access",
        "200",
        _ACCESS,
        "    return _decision(AccessDecision(transaction_id=None, resource_execution_id=shown))",
        "    return _decision(AccessDecision(transaction_id=None, resource_execution_id=shown), 202)",
    ),
    Break("POST /access", "402: no", _CHECKS, "LEAD_SECONDS: Final = 6", "LEAD_SECONDS: Final = 5"),
    Break(
        "POST /access",
        "402 whatever",
        _PROOFS,
        "    except (ValueError, RecursionError):\n",
        "    except RecursionError:\n",
    ),
    Break("POST /access", "402 says", _INSTRUCTIONS, '"error": reason', '"error": ""'),
    Break(
        "POST /access",
        "402 cannot",
        _INSTRUCTIONS,
        "return _in_base64(before + challenge + after)",
        "return _in_base64(text)",
    ),
    Break(
        "POST /access",
        "202",
        _ACCESS,
        "return _decision(AccessDecision(transaction_id=known.id), status=202)",
        "return _decision(AccessDecision(transaction_id=None), status=202)",
    ),
    Break(
        "POST /access",
        "the same proof",
        _ACCESS,
        " and known.sale.request.resource.url == request.resource.url",
        "",
    ),
    # POST /transactions/{transaction_id}/complete
    Break(
        "POST /transactions",
        "path",
        _COMPLETE,
        "record = books.transactions.get(identifier)",
        "record = books.transactions.get(identifier) or next(iter(books.transactions.values()), None)",
    ),
    Break(
        "POST /transactions",
        "`PAYMENT-SIGNATURE`",
        _COMPLETE,
        'raise invalid("PAYMENT-SIGNATURE header is required")',
        'raise invalid("PAYMENT-SIGNATURE header is required", 402)',
    ),
    Break(
        "POST /transactions",
        "body, `outcome` = `failed`",
        _TYPES,
        "[A-Za-z0-9._:-]{1,100}",
        "[A-Za-z0-9._:-]{1,99}",
    ),
    Break(
        "POST /transactions",
        "body, `outcome` = `succeeded`",
        _COMPLETE,
        "if value.required and value.name not in request.values:",
        "if False:",
    ),
    Break(
        "POST /transactions",
        "`resource_execution`",
        _REQUESTS,
        "    values: dict[ValueName, DecimalValue]\n    resource_execution: ResourceExecutionMetadata | None = None",
        "    values: dict[ValueName, DecimalValue]\n    resource_execution: ResourceExecutionMetadata",
    ),
    Break(
        "POST /transactions",
        "200,",
        _COMPLETE,
        '(("PAYMENT-RESPONSE", result.payment_response),)',
        '(("X-PAYMENT-RESPONSE", result.payment_response),)',
    ),
    Break(
        "POST /transactions",
        "202 with",
        _RECEIPTS,
        "        transaction_id=record.id,\n        status=record.status,",
        '        transaction_id=record.payment_request_id.replace("prq", "txn"),\n        status=record.status,',
    ),
    Break(
        "POST /transactions",
        "completed again",
        _COMPLETE,
        "if _values(accepted) != _values(request):",
        "if False:",
    ),
    Break(
        "POST /transactions",
        "another revision",
        _COMPLETE,
        "if record.sale.revision.id != request.revision_id:",
        "if False:",
    ),
    Break(
        "POST /transactions",
        "too late",
        _SETTLING,
        "if at.timestamp() >= record.payment.valid_before:",
        "if at.timestamp() + 5 >= record.payment.valid_before:",
    ),
    # GET /transactions/{transaction_id} and GET /transactions
    Break(
        "GET /transactions",
        "200 with",
        _READS,
        'detail(record).model_dump(mode="json", exclude_none=True)',
        'detail(record).model_dump(mode="json", exclude_none=True, exclude={"receipt"})',
    ),
    Break(
        "GET /transactions",
        "404",
        _COMPLETE,
        'raise Refusal(404, "transaction_not_found"',
        'raise Refusal(404, "not_found"',
    ),
    Break(
        "GET /transactions",
        "`status` filter",
        _STATE,
        'STATUSES: Final[tuple[Status, ...]] = ("authorized", "settling", "reconciling", "failed", "succeeded")',
        'STATUSES: Final[tuple[Status, ...]] = ("authorized", "settling", "failed", "succeeded")',
    ),
    Break(
        "GET /transactions",
        "`payer_id` filter",
        _LISTS,
        "    if payer_id is None:\n",
        '    if payer_id is None or "status" in query.filters:\n',
    ),
    Break(
        "GET /transactions", "`as_of`", _QUERIES, "MAX_PAGE_SIZE: Final = 100", "MAX_PAGE_SIZE: Final = 101"
    ),
    Break(
        "GET /transactions",
        "items are",
        _LISTS,
        "lambda record: item(record, query.as_of)",
        "lambda record: detail(record)",
    ),
    # GET /payers, GET /resources, GET /contracts
    Break(
        "GET /payers",
        "payers:",
        _LISTS,
        '        "/payers",\n        lambda payer: Payer(\n            id=payer.id,\n            identifier=payer.identifier,\n            created_at=payer.created_at',
        '        "/payers",\n        lambda payer: Payer(\n            id=payer.id,\n            identifier=payer.identifier,\n            created_at=query.as_of',
    ),
    Break(
        "GET /payers",
        "resources: `archived`",
        _LISTS,
        "if listing.archived(query.as_of) == archived)",
        "if not archived or listing.archived(query.as_of))",
    ),
    Break(
        "GET /payers",
        "resources: of",
        _CATALOG,
        'id=derived_id("res", created, environment, plan.key)',
        'id=derived_id("res", created, plan.key)',
    ),
    Break(
        "GET /payers",
        "contracts",
        _CATALOG,
        "in self.listings.values() if not listing.archived(moment))",
        "in self.listings.values())",
    ),
    # POST /resource-executions/{resource_execution_id}/complete
    Break(
        "POST /resource",
        "200",
        _EXECUTIONS,
        "record.metadata not in (None, request.resource_execution)",
        "record.metadata is not None",
    ),
    Break(
        "POST /resource",
        "400",
        _CALLS,
        'return invalid("the body is not JSON", 400)',
        'return invalid("the body is not JSON")',
    ),
    Break(
        "POST /resource",
        "422",
        _REQUESTS,
        "Count = Annotated[int, Field(strict=True, ge=0,",
        "Count = Annotated[int, Field(strict=True,",
    ),
    Break(
        "POST /resource",
        "404",
        _EXECUTIONS,
        'raise Refusal(404, "resource_execution_not_found"',
        'raise Refusal(404, "transaction_not_found"',
    ),
    Break(
        "POST /resource",
        "409 `resource_execution_conflict`",
        _EXECUTIONS,
        "if record.metadata not in (None, request.resource_execution):",
        "if False:",
    ),
    Break(
        "POST /resource",
        "409 `revision_mismatch`",
        _EXECUTIONS,
        "if record.revision_id != request.revision_id:",
        "if False:",
    ),
    Break(
        "POST /resource",
        "how the id",
        _ACCESS,
        "shown = execution.id if books.expose_execution_id else None",
        "shown = None",
    ),
    # Pagination rules
    Break(
        "Pagination", "1. first", _QUERIES, "DEFAULT_PAGE_SIZE: Final = 50", "DEFAULT_PAGE_SIZE: Final = 49"
    ),
    Break("Pagination", "2. `as_of`", _STATE, "if began <= moment)", "if True)"),
    Break("Pagination", "2. `next`", _LISTS, "        **query.filters,\n", ""),
    Break(
        "Pagination",
        "3. ",
        _LISTS,
        "Page[BaseModel](items=[], count=count,",
        "Page[BaseModel](items=[], count=end - start,",
    ),
    Break(
        "Pagination",
        "order",
        _LISTS,
        "records = between(count - end, count - start)[::-1] if",
        "records = between(count - end, count - start) if",
    ),
    # Authentication
    Break("Authentication", "1. ", _KEYS, 'scheme.lower() != "bearer"', 'scheme != "Bearer"'),
    Break("Authentication", "2. ", _KEYS, 'if key.environment == "live" and not allow_live:', "if False:"),
    Break("Authentication", "4. ", _KEYS, 'raise Refusal(403, "forbidden"', 'raise Refusal(401, "forbidden"'),
    Break(
        "Authentication",
        "5. ",
        _KEYS,
        'values = header_values(headers, "authorization")',
        'values = header_values(headers, "authorization") or [f"Bearer {next(iter(keys))}" for _ in header_values(headers, "payment-signature")]',
    ),
    Break("Authentication", "6. ", _ROUTES, '"payers:read", list_payers', '"resources:read", list_payers'),
    # Errors
    Break(
        "Errors",
        "error body",
        _REPLIES,
        "return answer(body, status=self.status, headers=self.headers)",
        'return answer_value({**body.model_dump(), "status": self.status}, status=self.status, headers=self.headers)',
    ),
    Break("Errors", "400", _CALLS, 'MAX_BODY} bytes", 400)', 'MAX_BODY} bytes")'),
    Break("Errors", "401", _KEYS, 'Refusal(401, "unauthenticated"', 'Refusal(401, "unauthorized"'),
    Break(
        "Errors",
        "402",
        _ACCESS,
        'return Refusal(402, "payment_required"',
        'return Refusal(400, "payment_required"',
    ),
    Break("Errors", "403", _KEYS, 'raise Refusal(403, "forbidden"', 'raise Refusal(403, "not_allowed"'),
    Break(
        "Errors",
        "404 `transaction",
        _COMPLETE,
        'raise Refusal(404, "transaction_not_found"',
        'raise Refusal(410, "transaction_not_found"',
    ),
    Break(
        "Errors",
        "404 `resource",
        _EXECUTIONS,
        "if record is None:",
        "if record is None and not call.identifier:",
    ),
    Break(
        "Errors",
        "409 `resource",
        _EXECUTIONS,
        'raise Refusal(409, "resource_execution_conflict"',
        'raise Refusal(409, "conflict"',
    ),
    Break(
        "Errors",
        "409 `revision",
        _EXECUTIONS,
        'raise Refusal(409, "revision_mismatch"',
        'raise Refusal(422, "revision_mismatch"',
    ),
    Break(
        "Errors",
        "422",
        _REPLIES,
        'return Refusal(status, "invalid_request", message)',
        'return Refusal(status, "invalid", message)',
    ),
    Break("Errors", "500", _SERVICE, 'Refusal(500, "internal_error"', 'Refusal(500, "internal"'),
    Break(
        "Errors",
        "unknown paths",
        _ROUTES,
        'raise Refusal(405, "invalid_request"',
        'raise Refusal(404, "invalid_request"',
    ),
    Break(
        "Errors",
        "order of refusal",
        _COMPLETE,
        "    request = call.body_as(complete_request)\n    record = known_transaction(books, call.identifier)\n",
        "    record = known_transaction(books, call.identifier)\n    request = call.body_as(complete_request)\n",
    ),
    # Limits
    Break("Limits", "page_size", _QUERIES, "[1-9][0-9]*", "[0-9][0-9]*"),
    Break("Limits", "as_of", _TIMELINE, "        if moment > now:\n            return None\n", ""),
    Break("Limits", "resource url", _TYPES, "min_length=1, max_length=2048", "min_length=1, max_length=2049"),
    Break(
        "Limits",
        "resource mime_type",
        _TYPES,
        "min_length=3,\n        max_length=255,",
        "min_length=3,\n        max_length=256,",
    ),
    Break(
        "Limits",
        "resource description",
        _TYPES,
        "Description = Annotated[str, StringConstraints(strict=True, max_length=500)]",
        "Description = Annotated[str, StringConstraints(strict=True, max_length=501)]",
    ),
    Break("Limits", "failure_code", _TYPES, "[A-Za-z0-9._:-]{1,100}", "[A-Za-z0-9._:-]{1,101}"),
    Break("Limits", "payer identifier", _BOOKS, "known = self.payers.get(payer.lower())", "known = None"),
    Break(
        "Limits",
        "value and key names",
        _TYPES,
        '        max_length=100,\n        pattern=r"^[a-z0-9]+(?:[-_]',
        '        max_length=101,\n        pattern=r"^[a-z0-9]+(?:[-_]',
    ),
    Break(
        "Limits",
        "reported decimal",
        _TYPES,
        'DecimalValue = Annotated[\n    str,\n    StringConstraints(strict=True, pattern=r"^(?:0|[1-9][0-9]{0,17})',
        'DecimalValue = Annotated[\n    str,\n    StringConstraints(strict=True, pattern=r"^(?:0|[1-9][0-9]{0,18})',
    ),
    Break("Limits", "x-svc-position", _GOODS, "Field(max_length=100)", "Field(max_length=101)"),
    Break("Limits", "atomic amounts", _TYPES, "len(text) <= 30", "len(text) <= 29"),
    Break("Limits", "body size", _CALLS, "MAX_BODY: Final = 64 * 1024", "MAX_BODY: Final = 64 * 1024 - 1"),
    # Versioning
    Break("Versioning", "1. ", _WIRE, 'ROOT = "/merchant/v1"', 'ROOT = "/merchant/v2"'),
    Break(
        "Versioning", "2. ", _CATALOG, "len(listing.revisions) + 1, rules)", "len(listing.revisions), rules)"
    ),
    Break("Versioning", "3. ", _READS, 'version="1.0.0"', 'version="1.0.0.0"'),
    Break("Versioning", "4. ", _RECEIPTS, "schema_version=1,", "schema_version=2,"),
)
