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


_FAREGATE: Final = "src/faregate/"
_SERVICE: Final = _FAREGATE + "rules/"
_ACCESS: Final = _SERVICE + "operations/access.py"
_COMPLETE: Final = _SERVICE + "operations/complete.py"
_READS: Final = _SERVICE + "operations/reads.py"
_APP: Final = _SERVICE + "app.py"
_CATALOG: Final = _SERVICE + "catalog.py"
_CLOCK: Final = _SERVICE + "clock.py"
_CONFIG: Final = _SERVICE + "config.py"
_HTTP: Final = _SERVICE + "http.py"
_IDENTIFIERS: Final = _SERVICE + "identifiers.py"
_RECEIPTS: Final = _SERVICE + "receipts.py"
_RECORDS: Final = _SERVICE + "records.py"
_ROUTES: Final = _SERVICE + "routes.py"
_SETTLEMENT: Final = _SERVICE + "settlement.py"
_STATE: Final = _SERVICE + "state.py"
_STORE: Final = _SERVICE + "store.py"
_HEADERS: Final = _FAREGATE + "x402/headers.py"
_TOKENS: Final = _FAREGATE + "x402/tokens.py"
_VERIFY: Final = _SERVICE + "verification.py"
_LEDGER: Final = _FAREGATE + "emulator/ledger.py"
_MODELS: Final = _FAREGATE + "merchant/models.py"
_PROBLEMS: Final = _FAREGATE + "merchant/problems.py"
_TYPES: Final = _FAREGATE + "merchant/types.py"
_FORMATS: Final = _FAREGATE + "merchant/formats.py"
_CALLS: Final = _FAREGATE + "merchant/calls.py"

BREAKS: Final = (
    # What the service does
    Break(
        "What the service",
        "1. no proof",
        _PROBLEMS,
        '402, "payment_required"',
        '402, "payment_missing"',
    ),
    Break(
        "What the service",
        "2. with proof",
        _ACCESS,
        "return _build_response(AccessDecision(transaction_id=made.id))",
        "return _build_response(AccessDecision(transaction_id=made.id), status=202)",
    ),
    Break("What the service", "3. ", _COMPLETE, "if not transaction.is_proof(payment.header):", "if False:"),
    Break(
        "What the service",
        "4. ",
        _COMPLETE,
        "return json_response(result, status=202, headers=(RETRY_SOON,))",
        "return json_response(result, headers=(RETRY_SOON,))",
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
        "    used = _compute_used(transaction, request)\n",
        "    newest = next(each for each in deps.store.list_active() if each.id == transaction.context.listing.id)\n    _check_values(request, newest.active.rules)\n    used = _compute_used(transaction, request)\n",
    ),
    Break("What the service", "7. ", _TOKENS, '"EURC": "EUR"}', '"EURC": "USD"}'),
    Break(
        "What the service",
        "8. ",
        _CATALOG,
        'id=derive_id("acr", made, environment, *place)',
        'id=derive_id("acr", made, *place)',
    ),
    Break("What the service", "9. ", _STATE, "execution.metadata = metadata", "pass"),
    Break(
        "What the service",
        "10. ",
        _ACCESS,
        "if not listing.require_payment:",
        "if not listing.resource.require_payment:",
    ),
    Break(
        "What the service",
        "bodies are",
        _HTTP,
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
        _STATE,
        'payer or PayerRecord(self.ids("pyr", now), verified.payer, now)',
        'payer or PayerRecord(self.ids("pyr", now), verified.payer.lower(), now)',
    ),
    Break("Resources", "Transaction", _RECEIPTS, "authorized_at=record.created_at,", "authorized_at=None,"),
    Break(
        "Resources", "Transaction detail", _RECEIPTS, 'id=issuer.ids("rct", at)', 'id=issuer.ids("txn", at)'
    ),
    Break(
        "Resources",
        "Completion result",
        _RECEIPTS,
        "transaction_hash=done.transaction_hash if done else None,\n    )\n\n\ndef build_transaction(",
        "transaction_hash=done.transaction_hash if done else record.id,\n    )\n\n\ndef build_transaction(",
    ),
    Break(
        "Resources",
        "PaymentResponse",
        _HEADERS,
        '"transaction": transaction_hash',
        '"transactionHash": transaction_hash',
    ),
    Break(
        "Resources",
        "Access decision",
        _ACCESS,
        'shown = decision.model_dump(mode="json", exclude={"resource_execution_id"})',
        'shown = decision.model_dump(mode="json")',
    ),
    Break(
        "Resources",
        "Payer",
        _READS,
        "last_transaction_at=payer.last_transaction_at,",
        "last_transaction_at=payer.created_at,",
    ),
    Break(
        "Resources",
        "Resource",
        _READS,
        "        description=listing.resource.description,\n        image_url",
        "        image_url",
    ),
    Break(
        "Resources",
        "Access request resource",
        _FORMATS,
        '"(?:application|audio|font|',
        '"(?:application|audio|',
    ),
    Break(
        "Resources",
        "Resource execution metadata",
        _MODELS,
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
        _READS,
        '_build_next_url(path, query, shown["as_of"])\n    return json_value_response(shown)',
        '_build_next_url(path, query, shown["as_of"])\n    return json_value_response({**shown, "page": query.page})',
    ),
    # States and transitions
    Break("States", "state before", _STATE, 'history=((now, "authorized"),)', 'history=((now, "settling"),)'),
    Break(
        "States",
        "open, outcome failed",
        _STATE,
        "return self.record_failed(record, None)",
        "record.submitted_at = self.clock.tick()",
    ),
    Break(
        "States",
        "open, outcome succeeded, finished",
        _LEDGER,
        "self.set_balance(terms.token, payment.payer, left)",
        "pass",
    ),
    Break(
        "States",
        "open, outcome succeeded, not",
        _STATE,
        "record.move(rule.via, at)",
        'record.move("succeeded", at)',
    ),
    Break(
        "States",
        "transitions after",
        _STATE,
        "return rule if record.reads >= rule.after_reads else None",
        "return rule if record.reads > rule.after_reads else None",
    ),
    Break("States", "final states", _COMPLETE, "if accepted.outcome != request.outcome:", "if False:"),
    # POST /access
    Break(
        "POST /access",
        "headers",
        _HTTP,
        '        if len(values) > 1:\n            raise invalid_request(f"the header',
        '        if False:\n            raise invalid_request(f"the header',
    ),
    Break(
        "POST /access",
        "body",
        _MODELS,
        "    settlement_asset: SettlementAsset\n",
        '    settlement_asset: SettlementAsset = "USDC"\n',
    ),
    Break(
        "POST /access",
        "`revision_id`",
        _ACCESS,
        "if revision.id != listing.active.id and not deps.sells_earlier:",
        "if False:",
    ),
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
        "return _build_response(AccessDecision(transaction_id=None), store.begin_execution(context))",
        "return _build_response(AccessDecision(transaction_id=None), store.begin_execution(context), 202)",
    ),
    Break("POST /access", "402: no", _VERIFY, "LEAD_SECONDS: Final = 6", "LEAD_SECONDS: Final = 5"),
    Break(
        "POST /access",
        "402 whatever",
        _HEADERS,
        "    except (ValueError, RecursionError):\n        raise",
        "    except RecursionError:\n        raise",
    ),
    Break("POST /access", "402 says", _HEADERS, '"error": reason', '"error": ""'),
    Break(
        "POST /access",
        "402 cannot",
        _HEADERS,
        "return _encode_base64(before + challenge + after)",
        "return _encode_base64(text)",
    ),
    Break(
        "POST /access",
        "503 when no backend",
        _ACCESS,
        'raise HttpError(UNAVAILABLE, "payments cannot be verified at present", (RETRY_SOON,)) from None',
        'return PaymentRefused("payments cannot be verified at present")',
    ),
    Break(
        "POST /access",
        "202",
        _ACCESS,
        "return _build_response(AccessDecision(transaction_id=transaction.id), status=202)",
        "return _build_response(AccessDecision(transaction_id=None), status=202)",
    ),
    Break(
        "POST /access",
        "the same proof",
        _ACCESS,
        " or transaction.context.request.resource.url != request.resource.url",
        "",
    ),
    # POST /transactions/{transaction_id}/complete
    Break(
        "POST /transactions",
        "path",
        _STATE,
        "return self.transactions.get(transaction_id)",
        "return self.transactions.get(transaction_id) or next(iter(self.transactions.values()), None)",
    ),
    Break(
        "POST /transactions",
        "`PAYMENT-SIGNATURE`",
        _COMPLETE,
        'raise invalid_request("PAYMENT-SIGNATURE header is required")',
        'raise HttpError(TRANSACTION_NOT_FOUND, "PAYMENT-SIGNATURE header is required")',
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
        _MODELS,
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
        "if _get_values(accepted) != _get_values(request):",
        "if False:",
    ),
    Break(
        "POST /transactions",
        "another revision",
        _COMPLETE,
        "if transaction.context.revision.id != request.revision_id:",
        "if False:",
    ),
    Break(
        "POST /transactions",
        "too late",
        _SETTLEMENT,
        "if rule is None or at.timestamp() >= transaction.payment.valid_before:\n        return settle(transaction, deps, at=at)",
        "if at.timestamp() + 5 >= transaction.payment.valid_before:\n        return deps.store.record_failed(transaction, at)\n    if rule is None:\n        return settle(transaction, deps, at=at)",
    ),
    # GET /transactions/{transaction_id} and GET /transactions
    Break(
        "GET /transactions",
        "200 with",
        _READS,
        'build_transaction_detail(transaction).model_dump(mode="json", exclude_none=True)',
        'build_transaction_detail(transaction).model_dump(mode="json", exclude_none=True, exclude={"receipt"})',
    ),
    Break(
        "GET /transactions",
        "404",
        _PROBLEMS,
        'Problem(404, "transaction_not_found"',
        'Problem(404, "not_found"',
    ),
    Break(
        "GET /transactions",
        "`status` filter",
        _RECORDS,
        "STATUSES: Final[tuple[Status, ...]] = get_args(Status)",
        'STATUSES: Final[tuple[Status, ...]] = ("authorized", "settling", "failed", "succeeded")',
    ),
    Break(
        "GET /transactions",
        "`payer_id` filter",
        _STATE,
        "index = self.index if payer_id is None else",
        "index = self.index if payer_id is None or status is not None else",
    ),
    Break("GET /transactions", "`as_of`", _HTTP, "MAX_PAGE_SIZE: Final = 100", "MAX_PAGE_SIZE: Final = 101"),
    Break(
        "GET /transactions",
        "items are",
        _READS,
        "[build_transaction(record, query.as_of) for record in page.records]",
        '[__import__("faregate.rules.receipts", fromlist=["_"]).build_transaction_detail(one) for one in page.records]',
    ),
    # GET /payers, GET /resources, GET /contracts
    Break(
        "GET /payers",
        "payers:",
        _READS,
        "created_at=payer.created_at,",
        "created_at=query.as_of,",
    ),
    Break(
        "GET /payers",
        "resources: `archived`",
        _READS,
        "if listing.is_archived(query.as_of) == archived]",
        "if not archived or listing.is_archived(query.as_of)]",
    ),
    Break(
        "GET /payers",
        "resources: of",
        _CATALOG,
        'id=derive_id("res", created, environment, resource.key',
        'id=derive_id("res", created, resource.key',
    ),
    Break(
        "GET /payers",
        "contracts",
        _CATALOG,
        "in self.listings.values() if not listing.is_archived(moment))",
        "in self.listings.values())",
    ),
    # POST /resource-executions/{resource_execution_id}/complete
    Break(
        "POST /resource",
        "200",
        _STATE,
        "if execution.metadata is None:\n            execution.metadata = metadata",
        "execution.metadata = ResourceExecutionMetadata() if execution.metadata else metadata",
    ),
    Break(
        "POST /resource",
        "400",
        _HTTP,
        'return HttpError(MALFORMED, "the body is not JSON")',
        'return invalid_request("the body is not JSON")',
    ),
    Break(
        "POST /resource",
        "422",
        _MODELS,
        "Count = Annotated[int, Field(strict=True, ge=0,",
        "Count = Annotated[int, Field(strict=True,",
    ),
    Break(
        "POST /resource",
        "404",
        _COMPLETE,
        "raise HttpError(EXECUTION_NOT_FOUND,",
        "raise HttpError(TRANSACTION_NOT_FOUND,",
    ),
    Break(
        "POST /resource",
        "409 `resource_execution_conflict`",
        _COMPLETE,
        "if recorded.metadata != request.resource_execution:",
        "if False:",
    ),
    Break(
        "POST /resource",
        "409 `revision_mismatch`",
        _COMPLETE,
        "if execution.revision_id != request.revision_id:",
        "if False:",
    ),
    Break(
        "POST /resource",
        "how the id",
        _STATE,
        "return record.id if self.expose_execution_id else None",
        "return None",
    ),
    # Pagination rules
    Break("Pagination", "1. first", _HTTP, "DEFAULT_PAGE_SIZE: Final = 50", "DEFAULT_PAGE_SIZE: Final = 49"),
    Break("Pagination", "2. `as_of`", _RECORDS, "if began <= moment)", "if True)"),
    Break("Pagination", "2. `next`", _READS, "        **query.filters,\n", ""),
    Break(
        "Pagination",
        "3. ",
        _READS,
        "Page[BaseModel](items=[], count=count,",
        "Page[BaseModel](items=[], count=end - start,",
    ),
    Break(
        "Pagination",
        "order",
        _STORE,
        "records = between(count - end, count - start)[::-1] if",
        "records = between(count - end, count - start) if",
    ),
    # Authentication
    Break("Authentication", "1. ", _HTTP, 'scheme.lower() != "bearer"', 'scheme != "Bearer"'),
    Break(
        "Authentication", "2. ", _APP, 'if key.environment == "live" and not self.allow_live:', "if False:"
    ),
    Break("Authentication", "4. ", _HTTP, "raise HttpError(FORBIDDEN,", "raise HttpError(UNAUTHENTICATED,"),
    Break(
        "Authentication",
        "5. ",
        _HTTP,
        'values = header_values(headers, "authorization")',
        'values = header_values(headers, "authorization") or [f"Bearer {next(iter(keys))}" for _ in header_values(headers, "payment-signature")]',
    ),
    Break("Authentication", "6. ", _ROUTES, '"payers:read", list_payers', '"resources:read", list_payers'),
    # Errors
    Break(
        "Errors",
        "error body",
        _HTTP,
        "return json_value_response(body, status=self.problem.status, headers=self.headers)",
        'return json_value_response({**body, "status": 0}, status=self.problem.status, headers=self.headers)',
    ),
    Break(
        "Errors",
        "400",
        _HTTP,
        'raise HttpError(MALFORMED, f"the body is longer',
        'raise HttpError(INVALID, f"the body is longer',
    ),
    Break("Errors", "401", _PROBLEMS, 'Problem(401, "unauthenticated"', 'Problem(401, "unauthorized"'),
    Break(
        "Errors",
        "402",
        _PROBLEMS,
        '402, "payment_required"',
        '400, "payment_required"',
    ),
    Break("Errors", "403", _PROBLEMS, 'Problem(403, "forbidden"', 'Problem(403, "not_allowed"'),
    Break(
        "Errors",
        "404 `transaction",
        _PROBLEMS,
        'Problem(404, "transaction_not_found"',
        'Problem(410, "transaction_not_found"',
    ),
    Break(
        "Errors",
        "404 `resource",
        _COMPLETE,
        "if execution is None:\n        raise HttpError(EXECUTION_NOT_FOUND",
        "if execution is None and not call.identifier:\n        raise HttpError(EXECUTION_NOT_FOUND",
    ),
    Break(
        "Errors",
        "409 `resource",
        _PROBLEMS,
        'Problem(409, "resource_execution_conflict"',
        'Problem(409, "conflict"',
    ),
    Break(
        "Errors",
        "409 `revision",
        _PROBLEMS,
        "EXECUTION_MISMATCH: Final = Problem(409,",
        "EXECUTION_MISMATCH: Final = Problem(422,",
    ),
    Break(
        "Errors",
        "422",
        _PROBLEMS,
        'INVALID: Final = Problem(422, "invalid_request"',
        'INVALID: Final = Problem(422, "invalid"',
    ),
    Break("Errors", "500", _PROBLEMS, 'Problem(500, "internal_error"', 'Problem(500, "internal"'),
    Break(
        "Errors",
        "unknown paths",
        _PROBLEMS,
        "METHOD_NOT_ALLOWED: Final = Problem(405,",
        "METHOD_NOT_ALLOWED: Final = Problem(404,",
    ),
    Break(
        "Errors",
        "order of refusal",
        _COMPLETE,
        "    request = call.body_as(complete_request)\n    transaction = find_transaction(call.identifier, deps.store)\n",
        "    transaction = find_transaction(call.identifier, deps.store)\n    request = call.body_as(complete_request)\n",
    ),
    # Limits
    Break("Limits", "page_size", _HTTP, "[1-9][0-9]*", "[0-9][0-9]*"),
    Break("Limits", "as_of", _CLOCK, "        if moment > now:\n            return None\n", ""),
    Break("Limits", "resource url", _FORMATS, "MAX_URL: Final = 2048", "MAX_URL: Final = 2049"),
    Break(
        "Limits",
        "resource mime_type",
        _FORMATS,
        "MAX_MIME_TYPE: Final = 255",
        "MAX_MIME_TYPE: Final = 256",
    ),
    Break(
        "Limits",
        "resource description",
        _FORMATS,
        "MAX_DESCRIPTION: Final = 500",
        "MAX_DESCRIPTION: Final = 501",
    ),
    Break("Limits", "failure_code", _TYPES, "[A-Za-z0-9._:-]{1,100}", "[A-Za-z0-9._:-]{1,101}"),
    Break(
        "Limits",
        "payer identifier",
        _STATE,
        "payer = self.payers.get(verified.payer.lower())",
        "payer = None",
    ),
    Break(
        "Limits",
        "value and key names",
        _TYPES,
        'max_length=100, pattern=r"^[a-z0-9]+(?:[-_]',
        'max_length=101, pattern=r"^[a-z0-9]+(?:[-_]',
    ),
    Break(
        "Limits",
        "reported decimal",
        _TYPES,
        'DecimalValue = Annotated[\n    str, StringConstraints(strict=True, pattern=r"^(?:0|[1-9][0-9]{0,17})',
        'DecimalValue = Annotated[\n    str, StringConstraints(strict=True, pattern=r"^(?:0|[1-9][0-9]{0,18})',
    ),
    Break("Limits", "x-svc-position", _CONFIG, "Field(max_length=100)", "Field(max_length=101)"),
    Break("Limits", "atomic amounts", _TYPES, "len(text) <= 30", "len(text) <= 29"),
    Break("Limits", "body size", _HTTP, "MAX_BODY: Final = 64 * 1024", "MAX_BODY: Final = 64 * 1024 - 1"),
    # Versioning
    Break("Versioning", "1. ", _CALLS, 'ROOT: Final = "/merchant/v1"', 'ROOT: Final = "/merchant/v2"'),
    Break(
        "Versioning",
        "2. ",
        _CATALOG,
        "number = len(listing.revisions) + 1",
        "number = len(listing.revisions)",
    ),
    Break("Versioning", "3. ", _READS, 'version="1.0.0"', 'version="1.0.0.0"'),
    Break("Versioning", "4. ", _RECEIPTS, "schema_version=1,", "schema_version=2,"),
)
