"""Rules that guard money, and one way to break each: exact text in the source, and what to put there.

A rule guards money if without it a result leaves unpaid, work is done twice, a payment is lost or moves another
amount, or a payer is asked to pay again. `scripts/mutants --random` makes every other change.
"""

from dataclasses import dataclass

CORE = (
    "tests/core",
    *(f"tests/journals/test_{name}.py" for name in ("contract", "open_payments", "memory", "persistent")),
)
STORE_TESTS = tuple(
    f"tests/journals/test_{name}.py"
    for name in ("persistent", "open_payments", "sqlite", "django_journal", "event_loops")
)
BATCH_TESTS = ("tests/journals/test_sqlite_batches.py", "tests/journals/test_sqlite_row_writes.py")
WRITER_TESTS = ("tests/journals/test_writer.py",)
RESUMPTION = ("tests/core/test_resumption.py",)
PURCHASES = ("tests/journals/test_purchases.py",)
SIGNS_AGAIN = ("tests/contract/test_disconnects.py", "-k", "signs_again")
UNSENT = ("tests/journals/test_unsent_results.py",)
IDENTIFIERS = ("tests/core/test_payment_identifier.py", "tests/journals/test_named_purchases.py")
PAID_BEFORE = ("tests/journals/test_paid_before.py",)
ADAPTER_TESTS = (
    "tests/checkout",
    "tests/adapters/test_starlette.py",
    "tests/adapters/test_starlette_disconnects.py",
    "tests/adapters/test_prefixes.py",
)


STATE = ("tests/attacks/test_state.py", "-k", "starlette")
ANSWERS = ("tests/attacks/test_answers.py",)
COPIES = ("tests/attacks/test_copies.py",)
MISTAKES = ("tests/attacks/test_mistakes.py",)
BODY_COPIES = ("tests/attacks/test_body_copies.py",)
COPIED_BODIES = ("tests/attacks/test_bodies.py",)
UNASKED = ("tests/attacks/test_unasked_prices.py",)
RELEASE_RULE = ("tests/core/test_withholding.py",)
RELEASE = ("tests/attacks/test_release.py", "tests/core/test_withholding.py")
RANGES = ("tests/attacks/test_release.py", "-k", "whole_result")
REFUSED = ("tests/attacks/test_refused.py",)
REWRITTEN = ("tests/attacks/test_rewritten_paths.py",)
ROUTE_TESTS = ("tests/routes/test_routes.py",)
SHADOW_TESTS = ("tests/routes/test_shadowed.py",)
WSGI_TESTS = ("tests/adapters/test_wsgi.py",)
CHOICES = ("tests/adapters/test_choices.py", "tests/adapters/test_mcp_choices.py")
CLIENTS = ("tests/core/test_same_client.py", "tests/journals/test_same_client.py")
LEASES = ("tests/journals/test_leases.py",)
OWNER_LOCKS = ("tests/journals/test_owner_locks.py", "--full")
WSGI_EDGES = ("tests/adapters/test_wsgi_edges.py",)
FLASK_TESTS = tuple(
    f"tests/adapters/test_flask{part}.py" for part in ("", "_caches", "_commands", "_placement", "_state")
)
DJANGO_STATE = ("tests/adapters/test_django_state.py",)
DJANGO_PLACEMENT = tuple(f"tests/adapters/test_django_placement{part}.py" for part in ("", "_apis", "_stack"))
DJANGO_TESTS = (
    *(f"tests/adapters/test_django{part}.py" for part in ("", "_commands", "_descriptions", "_edges")),
    *DJANGO_PLACEMENT,
)
CLIENT_TESTS = ("tests/service/chain/test_facilitator.py",)
VERIFY_TESTS = ("tests/service/chain/test_facilitated_verify.py",)
SETTLE_TESTS = ("tests/service/chain/test_facilitated.py",)


def on_stack(stack: str, test: str) -> tuple[str, ...]:
    """One test of the contract suite, on one stack."""
    return ("tests/contract", "-k", f"{stack} and {test}")


@dataclass(frozen=True)
class Mutant:
    """`old` must stand exactly once in `file`; `tests` must fail with `new` in its place."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = CORE


DATABASE = "src/faregate/service/database/"
SQL_STORE = tuple(f"tests/service/test_{name}.py" for name in ("store", "attempts", "concurrency"))
FLOW = "src/faregate/core/flow.py"
MODELS = "src/faregate/core/models.py"
BRIDGES = ("tests/checkout/test_paywall_answers.py", "tests/attacks/test_body_copies.py")
BILLING = "src/faregate/core/billing.py"
WITHHOLDING = "src/faregate/core/withholding.py"
SETTLEMENT = "src/faregate/core/completion.py"
RECOVERY = "src/faregate/core/recovery.py"
LOST_KEYS = ("tests/journals/test_persistent.py", "-k", "missing_key")
HEARTBEAT = "src/faregate/journals/heartbeat.py"
FILE_LOCKS = "src/faregate/journals/file_locks.py"
SESSION_LOCKS = "src/faregate/journals/session_locks.py"
REQUEST_HEADERS = "src/faregate/core/request_headers.py"
OBSERVERS = "src/faregate/observers.py"
TRANSPORTS = "src/faregate/transports/"
INTERPRET = "src/faregate/merchant/interpret.py"
ROW = "src/faregate/journals/row_rules.py"
MEMORY = "src/faregate/journals/memory.py"
PROCEDURES = "src/faregate/journals/procedures.py"
ROW_ACCESS = "src/faregate/journals/row_access.py"
OPEN_PAYMENTS = "src/faregate/journals/open_payments.py"
WRITER = "src/faregate/journals/writer.py"
ENCRYPTION = "src/faregate/journals/keyring.py"
SQLITE = "src/faregate/journals/sqlite/"
REDIS = "src/faregate/journals/redis/"
DJANGO = "src/faregate/django/"
RESPONSES = "src/faregate/core/responses.py"
CHECKOUT = "src/faregate/checkout/checkout.py"
ASYNC_CHECKOUT = "src/faregate/checkout/async_checkout.py"
CHOICE = "src/faregate/checkout/offer_choice.py"
ASGI_RESPONDER = "src/faregate/checkout/asgi_responder.py"
PATH_RULES = "src/faregate/checkout/path_rules.py"
WSGI = "src/faregate/wsgi.py"
ROUTE_PRICING = "src/faregate/routes/pricing.py"
ASGI = "src/faregate/asgi.py"
SHIELDING = "src/faregate/checkout/shielding.py"
HANDLERS = "src/faregate/checkout/handlers.py"
HANDLER_RESOLVER = "src/faregate/routes/handler_resolver.py"
WRAPPERS = "src/faregate/routes/wrappers.py"
STARLETTE = "src/faregate/starlette.py"
FLASK_DECORATORS = "src/faregate/flask/decorators.py"
FACILITATOR = "src/faregate/service/chain/facilitator.py"
FACILITATED = "src/faregate/service/chain/facilitator_backend.py"
CHAIN = "src/faregate/service/chain/"
CHAIN_TESTS = (
    "tests/service/chain/test_chain.py",
    "tests/service/chain/test_chain_together.py",
    "tests/service/chain/test_chain_faults.py",
    "tests/service/chain/test_chain_sizes.py",
)
SELFHOSTED = "src/faregate/service/"
REFUND_TESTS = ("tests/service/test_refunds.py",)
USAGE_PRICES = "src/faregate/x402/usage_prices.py"
USAGE_PRICE_TESTS = ("tests/x402/test_usage_prices.py",)
SOLD_BY_USE = ("tests/adapters/test_usage_prices.py",)
USAGE_TESTS = ("tests/service/chain/test_usage_chain.py",)
USAGE_PAYMENT_TESTS = (
    "tests/service/chain/test_usage_facilitated.py",
    "tests/service/chain/test_usage_direct.py",
)
AGREEMENT_TESTS = ("tests/service/chain/test_agreement.py",)
DIRECT = "src/faregate/service/chain/direct/"
SQL = "src/faregate/service/database/"
ATTEMPTS = ("tests/service/test_attempts.py",)
DIRECT_TESTS = ("tests/service/chain/test_direct.py", "tests/service/chain/test_direct_upkeep.py")
REORGS = "src/faregate/service/reorg_watch.py"
REORG_TESTS = ("tests/service/test_reorg_watch.py",)
PUBLISHED_IDS = ("tests/service/test_published_ids.py",)
RECONCILIATION = "src/faregate/service/reconciliation.py"
RECONCILIATION_TESTS = ("tests/service/test_reconciliation.py",)
REBUILT = ("tests/emulator/test_rebuilt_proofs.py",)
SERVICE_RULES = "src/faregate/rules/"
ACCESS = SERVICE_RULES + "operations/access.py"
COMPLETE = SERVICE_RULES + "operations/complete.py"
ACCESS_TESTS = ("tests/emulator/test_access.py",)
COMPLETE_TESTS = ("tests/emulator/test_complete.py",)
PAY = "src/faregate/pay/"
PAY_TESTS = ("tests/pay/test_transports.py",)
MCP = "src/faregate/mcp/"
MCP_TESTS = ("tests/adapters/test_mcp.py",)
MCP_MISTAKES = ("tests/adapters/test_mcp_mistakes.py",)
MCP_STREAMS = ("tests/adapters/test_mcp_streams.py",)
MCP_COPIES = ("tests/attacks/test_mcp_copies.py",)

MUTANTS = (
    # A result leaves only on proof
    Mutant("release-while-settling", SETTLEMENT, "return (yield from hold(backend, payment, StillSettling(reply)))",
           'return PaymentProven(outcome.result, "")'),
    Mutant("release-unproven", SETTLEMENT, 'return (yield from hold(backend, payment, Unconfirmed("not proven")))',
           'return PaymentProven(outcome.result, "")'),
    Mutant("release-on-get", RECOVERY, "        case TransactionState.PENDING if not (yield",
           "        case TransactionSettled():\n"
           '            return PaymentProven(outcome.result, "")\n'
           "        case TransactionState.PENDING if not (yield"),
    Mutant("deliver-to-a-payer-who-left", SETTLEMENT, "    return not has_left\n", "    return True\n"),
    Mutant("release-on-a-look-while-waiting", SETTLEMENT,
           "        completion = yield from _complete(backend, payment, outcome)\n    match completion:",
           '        return PaymentProven(outcome.result, "")\n    match completion:'),
    Mutant("no-header-needed", INTERPRET, 'return CompletionUnknown("succeeded without one PAYMENT-RESPONSE header")',
           'payment_response = ""'),
    Mutant("no-receipt-needed", INTERPRET, "    if not _has_receipt(result):\n", "    if False:\n"),
    Mutant("202-succeeded-is-proof", INTERPRET, "if reply.status == 202:", "if False:"),
    Mutant("unknown-status-is-success", INTERPRET, 'case "succeeded":', 'case "succeeded" | "novel":'),
    Mutant("release-without-outcome", ROW,
           "if self.state not in (SUCCEEDED, STUCK) or not isinstance(self.outcome, WorkSucceeded):",
           "if self.state not in (SUCCEEDED, STUCK, RUNNING):"),
    # Never run unpaid, never twice
    Mutant("run-without-proof", FLOW, 'yield backend.log_warning("access granted a transaction without a proof", transaction_id)\n'
           "            return (yield from _refuse(backend, request, responses.build_unavailable(502)))",
           "return (yield from _serve_free(backend, request, revision, AccessFree()))"),
    Mutant("run-without-start", FLOW, "if started is not True:", "if False:"),
    Mutant("claim-never-busy", ROW, "if self.is_leased(now, policy, owner_until):\n            return InProgress()", "if False:\n            return InProgress()"),
    Mutant("rerun-interrupted", ROW, "if self.state in (CLAIMED, UNSTARTED):\n            return self._claim_unstarted",
           "if self.state in (CLAIMED, UNSTARTED, RUNNING):\n            return self._claim_unstarted"),
    Mutant("any-request", ROW, "if fingerprint.request != self.request or (", "if ("),
    Mutant("transaction-not-unique", MEMORY, "return self._transactions.get(transaction_id, key) == key", "return True"),
    Mutant("no-fencing", ROW, "return self.fence == lease.fence and", "return"),
    # The outcome is recorded once, then reported
    Mutant("complete-before-decide", SETTLEMENT, "    if not (yield from record_outcome(backend, payment, _remove_cookies(outcome))):\n"
           "        return LeaseLost()\n"
           "    if is_observed:\n        yield backend.emit_event(\n            Worked(",
           "    if is_observed:\n        yield backend.emit_event(\n            Worked("),
    Mutant("decide-twice", ROW, "self._is_held(lease, RUNNING, *", "self._is_held(lease, RUNNING, SUCCEEDED, *"),
    Mutant("charge-for-cut-results", BILLING, "        _check_length(result.response, request.http.method)\n", ""),
    Mutant("charge-for-errors", BILLING, "if status in request.billable and", "if"),
    # What may leave unpaid (`core.withholding`)
    Mutant("unbilled-statuses-leave", BILLING, "    if unpaid is not None:\n        return unpaid\n", "    return unpaid or responses.build_unsold(result.response)\n", RELEASE),
    Mutant("errors-carry-results", WITHHOLDING, " or (was_result and is_harmless_error(response.status))", "", RELEASE_RULE),
    Mutant("results-leave-as-errors", CHECKOUT, "            self.has_answered_result = True\n", "            pass\n", ("tests/adapters/test_flask_exception_answers.py",)),
    Mutant("stale-results-leave-as-errors", CHECKOUT, "        elif not (is_result or self._is_error_billed(buffer.status)) and RESULTS.is_copy(buffer.body):\n", "        elif False:\n", ("tests/attacks/test_stale_errors.py",)),
    Mutant("any-status-is-an-error", WITHHOLDING, "return 400 <= status <= 599", "return status >= 300", RELEASE),
    Mutant("redirects-to-other-hosts", WITHHOLDING, ' and _fold_host(parts.netloc) in ("", _fold_host(host))', "", RELEASE_RULE),
    Mutant("slash-redirects-with-a-signature", WITHHOLDING, " and unquote(location.query) == unquote(query)\n", "\n", RELEASE_RULE),
    Mutant("preconditions-reach-paid-handlers", "src/faregate/checkout/incoming_request.py", '    "if-match",\n', "", RANGES),
    Mutant("ranges-reach-paid-views", DJANGO + "requests.py", "        drop_conditions(request.META)\n", "", RANGES),
    Mutant("copies-leave-under-another-key", CHECKOUT, "if not mistake and (is_from_cache or is_marked(headers)):", "if not mistake and is_from_cache:", COPIES),
    Mutant("released-results-leave-again", CHECKOUT, "if not mistake and (is_from_cache or is_marked(headers)):", "if not mistake and is_marked(headers):", BODY_COPIES),
    Mutant("copies-leave-under-another-spelling", HANDLER_RESOLVER, "for path in list_spellings(server_scope[\"path\"]):", "for path in ():", COPIES),
    Mutant("bodies-leave-by-free-addresses", CHECKOUT, "            if RESULTS.is_copy(whole):\n", "            if False:\n", BODY_COPIES),
    Mutant("copies-leave-by-free-views", CHECKOUT, "if body != own and RESULTS.is_copy(body) and not RESULTS.is_copy(own):", "if False:", BODY_COPIES),
    Mutant("copies-of-bodies-leave", ASGI_RESPONDER, "if suspected.is_copy():", "if False:", COPIED_BODIES),
    Mutant("early-messages-leave", ASGI_RESPONDER, "if is_start or self._state is not FREE:", "if is_start:", COPIES),
    Mutant("twenty-works-for-one-payment", CHECKOUT, " and self._asks_left != 0:", ":", RELEASE),
    Mutant("late-prices-are-forgotten", CHECKOUT, "        self._move(DECIDED)\n        raise self.late\n", "        error, self.late = self.late, None\n        raise error\n", ("tests/attacks/test_late_prices.py",)),
    Mutant("late-prices-in-streams-go-on", WSGI, "        for chunk in chunks:\n            self._checkout.check_late()\n", "        for chunk in chunks:\n", ("tests/attacks/test_late_prices.py",)),
    Mutant("starlette-errors-of-decorators-carry-results", STARLETTE, "            _note_status(request, response)\n", "", ("tests/adapters/test_exception_answers.py",)),
    Mutant("errors-are-sold-in-envelopes", ASGI_RESPONDER, "                checkout.note_status(status)\n", "", ("tests/adapters/test_exception_answers.py",)),
    Mutant("flask-errors-are-sold-in-envelopes", FLASK_DECORATORS, "            checkout.note_status(response.status_code)\n", "            pass\n", ("tests/adapters/test_flask_exception_answers.py",)),
    Mutant("flask-errors-are-sold-by-extensions", "src/faregate/flask/extension.py", "    config.check_unchanged()\n    watch_exceptions(app)\n", "    config.check_unchanged()\n", ("tests/adapters/test_flask_exception_answers.py",)),
    Mutant("decorators-make-errors-of-plain-results", FLASK_DECORATORS, "return None if callable(answer) else 200", "return None", ("tests/adapters/test_flask_exception_answers.py",)),
    Mutant("flask-errors-are-sold-by-decorators", FLASK_DECORATORS, "        _note_status(answer)\n", "", ("tests/adapters/test_flask_exception_answers.py",)),
    Mutant("sold-views-are-free-on-other-paths", DJANGO + "middleware.py", "None if is_protected else find_given_away(resolver, rules).get(id(view))", "None", DJANGO_PLACEMENT),
    Mutant("django-errors-are-sold-in-envelopes", DJANGO + "decorators.py", "        get_checkout(request, sold).note_status(answer.status_code)\n", "", ("tests/adapters/test_django_exception_answers.py",)),
    Mutant("django-errors-are-sold-by-renderers", DJANGO + "middleware.py", "            checkout.note_status(response.status_code)\n", "            pass\n", ("tests/adapters/test_django_exception_answers.py",)),
    Mutant("contexts-leave-unpaid", ASGI_RESPONDER, "if response.released or self._context is None:", "if True:", RELEASE),
    Mutant("pending-cancellation-ends-a-completion", ASYNC_CHECKOUT, "            await raise_pending_cancellation()\n", "", ("tests/adapters/test_handler_exits.py", "-k", "before_its_whole_response")),
    Mutant("prices-in-wrappers-of-wrapt-are-free", "src/faregate/checkout/wrapped_callables.py", "        current = peel(waiting.pop(0))\n", "        current = waiting.pop(0)\n", ("tests/checkout/test_wrapped_callables.py",)),
    Mutant("applications-in-wrappers-of-wrapt-are-hidden", "src/faregate/routes/wrappers.py", "    app = peel(app)\n", "", ("tests/attacks/test_applications.py", "-k", "wrapper")),
    Mutant("streams-that-are-cut-are-charged", ASGI_RESPONDER, "                    await anyio.lowlevel.checkpoint()\n            await self._complete()\n", "                    pass\n            await self._complete()\n", ("tests/adapters/test_handler_exits.py", "-k", "stream")),
    Mutant("unawaited-payments-are-free", CHECKOUT, "        self._expected = sold", "        pass", ("tests/attacks/test_late_prices.py",)),
    Mutant("answers-that-nobody-asked-for", TRANSPORTS + "messages.py", "            self._keeps_alive = False  # what followed the reply\n", "            pass\n",
           ("tests/merchant/test_pools.py", "-k", "second_answer")),
    Mutant("failed-into-a-settlement", RECOVERY, "        case TransactionState.PENDING | TransactionState.CONTRADICTORY:\n"
           '            return (yield from hold(backend, payment, Unconfirmed("settling")))\n',
           ""),
    Mutant("completed-by-others-and-stuck", RECOVERY, "            yield backend.log_warning(\n"
           '                "a payment settled although its work was reported as failed", payment.transaction_id\n'
           "            )\n"
           "            return (yield from close_paid(backend, payment, receipt, outcome.code))\n",
           "            return (yield from complete_failure(backend, payment, outcome, sticks_if_refused=sticks_if_refused))\n"),
    Mutant("overtaken-and-told-used", FLOW, "build_unconfirmed(payment.transaction_id)))\n    if not was_unused:\n",
           "build_unconfirmed(payment.transaction_id)))\n    if False:\n"),
    Mutant("no-last-resort", FLOW, "start of the work: {error}\", payment.transaction_id\n        )\n"
           "        yield backend.write_fallback(payment.transaction_id, payment.revision_id)\n",
           "start of the work: {error}\", payment.transaction_id\n        )\n"),
    # Of a payer's payments for one request, one runs; the others lead to its result
    Mutant("second-payment-runs", FLOW, "if isinstance(started, EarlierPayment) and claimant is not None:",
           "if isinstance(started, EarlierPayment):\n        started = True\n    if False:", RESUMPTION),
    Mutant("payers-not-compared", RECOVERY, "return len(payers) == 1", "return True", RESUMPTION),
    Mutant("unread-payer-is-another", FLOW, "if has_same_payer is None:", "if False:", RESUMPTION),
    Mutant("any-body-is-resumed", MODELS, 'self.http.body_digest != "" or', "True or", RESUMPTION),
    Mutant("given-up-without-a-row", FLOW, "    if not was_resumed:\n        return (yield from _handle_lost_start(backend, request, payment))\n", "", RESUMPTION),
    Mutant("another-thing-is-resumed", ROW, "claimant.sold, ", "", PURCHASES),
    Mutant("any-client-resumes", PROCEDURES, "if not (claimant.identifier or row.has_same_client(fingerprint)):", "if False:", PURCHASES),
    Mutant("any-client-resumes-in-memory", MEMORY, "if claimant.identifier or earlier.has_same_client(self._fingerprint(claimant, \"\")):", "if True:", PURCHASES),
    Mutant("given-up-leads-nowhere", ROW, "return AlreadyFailed(find_resumed(self.reason))", "return AlreadyFailed()", PURCHASES),
    Mutant("purchase-freed-by-the-sweep", ROW, "            self._note_sender(owner)\n        self.expires_at", "            pass\n        self._free_purchase_unless_named()\n        self.expires_at", PURCHASES),
    Mutant("payer-left-while-delivery-was-written", SETTLEMENT, "if payer_waits and not was_delivered_elsewhere and not (yield from is_awaited(backend, request)):", "if False:", RESUMPTION),
    Mutant("payers-that-are-no-addresses-are-compared", INTERPRET, " and _ADDRESS.fullmatch(payer)", "", ("tests/core/test_results.py",)),
    Mutant("delivery-taken-back-beside-its-next-purchase", PROCEDURES, '            get_copy(lease).purchase = ""\n', "            pass\n", PURCHASES),
    Mutant("messages-of-other-tasks-are-not-awaited", ASGI_RESPONDER, "return 0.005 if is_from_thread else 0.0", "return 0.005 if is_from_thread else None", ("tests/adapters/test_starlette_disconnects.py", "-k", "behind_middleware")),
    Mutant("rows-of-postgres-are-not-checked", "src/faregate/journals/postgres/schema.py", "END IF;{_CHECK_ROW}\n", "END IF;\n", ("tests/journals/test_row_rules.py", "-k", "postgres and columns")),
    Mutant("inserted-rows-of-postgres-are-not-checked", "src/faregate/journals/postgres/schema.py", "BEFORE INSERT OR UPDATE ON", "BEFORE UPDATE ON", ("tests/journals/test_row_rules.py", "-k", "postgres and inserts")),
    Mutant("rows-of-postgres-go-back", "src/faregate/journals/postgres/schema.py", "IF {FORBIDDEN_TRANSITION} THEN", "IF false THEN", ("tests/journals/test_row_rules.py", "-k", "postgres and transitions")),
    Mutant("unsent-purchase-released-in-postgres", "src/faregate/journals/postgres/store.py", "AND purchase = %s AND delivered \"\n", "AND purchase = %s \"\n", (*PURCHASES, "-k", "postgres and not django")),
    Mutant("named-purchase-released-in-postgres", "src/faregate/journals/postgres/store.py", "if not purchase or purchase.startswith(IDENTIFIED):", "if not purchase:", (*UNSENT, "-k", "postgres and not django")),
    Mutant("views-sold-by-their-path-are-given-away", DJANGO + "price_placement.py", "if paths and _are_protected(paths, rules):", "if False:", ("tests/adapters/test_django_placement.py",)),
    Mutant("granian-is-not-waited-for", ASGI_RESPONDER, "return 0.005 if is_from_thread else 0.0", "return None if is_from_thread else 0.0", ("tests/contract/test_disconnects.py", "-k", "busy_server")),
    Mutant("granian-is-not-waited-for-behind-middleware", ASGI_RESPONDER, " or has_server_threads()", "", ("tests/adapters/test_starlette_disconnects.py", "-k", "threads_fetch")),
    Mutant("trio-is-asked-for-no-time", ASGI_RESPONDER, "return 0.005 if is_from_thread else 0.0", "return 0.005 if is_from_thread else None", SIGNS_AGAIN),
    Mutant("django-does-not-tell-who-left", DJANGO + "middleware.py", "lambda: shielded.has_client_left", "None", SIGNS_AGAIN),
    Mutant("payer-left-before-a-quick-sale", SETTLEMENT, "if not is_last and backend.get_time()", "if backend.get_time()", ("tests/adapters/test_starlette_disconnects.py", "-k", "busy_server")),
    Mutant("earlier-result-for-a-payer-who-left", FLOW, "if not (yield from is_awaited(backend, request)):", "if False:", RESUMPTION),
    Mutant("delivery-taken-back-without-its-purchase", ROW, "self.purchase = self.purchase or get_copy(lease).purchase", "pass", PURCHASES),
    Mutant("delivery-of-another-lease-taken-back", ROW, "is_first and self.fence == lease.fence", "is_first", PURCHASES),
    Mutant("later-delivery-taken-back", ROW, "is_first = self.delivered and self.redelivered == 0", "is_first = self.delivered", PURCHASES),
    Mutant("purchase-of-two-payments-in-memory", MEMORY, "if self._purchases.get(row.purchase, row.key) != row.key:", "if False:", PURCHASES),
    Mutant("unsent-result-counts-as-sent", ROW, "return owner_until != IS_DEAD or now >= self.touched_at + UNSENT_SECONDS", "return True", UNSENT),
    Mutant("sender-is-not-known", ROW, "if self.purchase and has_lock(owner):", "if False:", UNSENT),
    Mutant("purchase-of-another-sender-released", SQLITE + "store.py", "AND delivered AND owner = (SELECT owner {_MINE} AND key = ? AND stamp = ?)\"", "AND delivered AND ? IS NOT NULL AND ? IS NOT NULL AND ? IS NOT NULL\"", UNSENT),
    Mutant("purchase-of-another-sender-released-in-postgres", "src/faregate/journals/postgres/store.py", "AND owner = (SELECT owner {_MINE} AND key = %s AND stamp = %s) AND {_HOW}", "AND (SELECT true {_MINE} AND key = %s AND stamp = %s) AND {_HOW}", (*UNSENT, "--full", "-k", "was_killed and postgres and not django")),
    Mutant("unsent-purchase-released", SQLITE + "store.py", "AND delivered AND owner = (", "AND owner = (", PURCHASES),
    Mutant("named-purchase-released", SQLITE + "store.py", "if not purchase or purchase.startswith(IDENTIFIED):", "if not purchase:", UNSENT),
    Mutant("named-purchase-made-again", ROW, "if failed or not self.purchase.startswith(IDENTIFIED):", "if True:", IDENTIFIERS),
    Mutant("named-purchase-of-a-failed-payment", ROW, "if failed or not self.purchase.startswith(IDENTIFIED):", "if not self.purchase.startswith(IDENTIFIED):", IDENTIFIERS),
    Mutant("named-purchase-of-another-client", PROCEDURES, "if not (claimant.identifier or row.has_same_client(fingerprint)):", "if not row.has_same_client(fingerprint):", IDENTIFIERS),
    Mutant("named-purchase-freed-unfetched", OPEN_PAYMENTS, 'if not (record["purchase"] or "").startswith(IDENTIFIED):', "if True:", IDENTIFIERS),
    Mutant("named-purchase-of-another-request", FLOW, "    return not isinstance(claim, RequestMismatch)\n", "    return True\n", IDENTIFIERS),
    Mutant("name-counts-only-for-what-is-resumed", FLOW, "claimant if request.is_resumable or claimant.identifier else None", "claimant if request.is_resumable else None", IDENTIFIERS),
    Mutant("purchase-of-failed-work", ROW, '        if failed:\n            self.purchase = ""\n', "", PURCHASES),
    Mutant("purchase-not-unique", SQLITE + "schema.py", "CREATE UNIQUE INDEX journal_purchases", "CREATE INDEX journal_purchases", PURCHASES),
    Mutant("purchase-not-unique-in-redis", REDIS + "journal.lua", "if first and first ~= key then", "if false then", PURCHASES),
    Mutant("last-resort-not-on-the-disk", OBSERVERS, "        os.fsync(file)\n", ""),
    Mutant("observers-decide", OBSERVERS, "            except Exception as error:\n                failed =", "            except TypeError as error:\n                failed ="),
    Mutant("people-take-what-is-settled", OPEN_PAYMENTS, '        if record is None or record["expires_at"] is not None:\n            return None\n', "        if record is None:\n            return None\n", STORE_TESTS),
    Mutant("started-without-a-flush", PROCEDURES, "change, durable=True)\n        _check_known(row, transaction_id)\n        started =", "change)\n        _check_known(row, transaction_id)\n        started =", STORE_TESTS),
    Mutant("resumed-without-a-flush", PROCEDURES, "            row, changed = yield from self._change(lease, change, durable=self._rows.syncs_outcomes)", "            row, changed = yield from self._change(lease, change)", STORE_TESTS),
    Mutant("decided-without-a-flush", PROCEDURES, "policy=policy),\n            durable=self._rows.syncs_outcomes,\n", "policy=policy),\n", STORE_TESTS),
    Mutant("reported-to-a-service-elsewhere-without-a-flush", SQLITE + "store.py", "return not self._database.is_shared_with_service", "return False", ("tests/service/test_in_process.py", "-k", "is_on_the_disk")),
    Mutant("a-journal-elsewhere-leaves-its-outcomes-to-the-service", "src/faregate/service/in_process.py", "if self._has_journal and isinstance(journal, SqliteJournal):", "if isinstance(journal, SqliteJournal):", ("tests/service/test_in_process.py", "-k", "is_on_the_disk")),
    Mutant("sql-a-batch-with-the-journal-is-not-synced", DATABASE + "engine.py", "change if change.then is None else Change(change.run, change.durable)", "change if change.then is None else Change(change.run, False)", ("tests/service/test_engine.py", "-k", "in_a_batch")),
    Mutant("402-for-a-decision-that-was-lost", SETTLEMENT, "if not (yield from record_outcome(backend, payment, WorkFailed(code))):\n"
           "        return LeaseLost()",
           "if not (yield from record_outcome(backend, payment, WorkFailed(code))):\n"
           "        return PaymentFailed(code)"),
    # A payment buys the offer that its request chose
    Mutant("choice-is-not-bound", FLOW, "    if request.is_chosen:\n", "    if False:\n", CHOICES),
    Mutant("any-choice-is-the-first", CHOICE, "if isinstance(chosen, str) and offer.sells == chosen:", "if True:", CHOICES),
    # A result goes to the client that paid for it
    Mutant("handed-to-another-client", ROW, "if not self._passes_client_check(fingerprint, STABLE):", "if False:", CLIENTS),
    Mutant("users-of-one-wallet-are-one", "src/faregate/core/request_headers.py", 'if kind == "cookie" and (user := _find_user(value)):', "if False:", CLIENTS),
    Mutant("replayed-without-credentials", ROW, "elif replay is ReplayPolicy.SAME_CLIENT and not self._has_secret_credentials:", "elif False:", CLIENTS),
    Mutant("a-first-request-that-is-answered-503-ends-the-start", "src/faregate/errors.py", "(isinstance(error, InternalError) and error.status == 503)", "False", ("tests/service/test_in_process_faults.py", "-k", "goes_away")),
    Mutant("a-first-request-without-database-ends-the-start", "src/faregate/paywall.py", "            if not is_unavailable(error):\n", "            if True:\n", ("tests/service/test_in_process_faults.py", "-k", "away")),
    Mutant("connection-shared-after-a-fork-in-c", "src/faregate/transports/pools.py", "        kept = self._kept.get(os.getpid())\n        return self._open()", "        kept = next(iter(self._kept.values()), None)\n        return self._open()", ("tests/merchant/test_pools.py", "-k", "after_a_fork")),
    Mutant("owner-shared-after-a-fork-in-c", "src/faregate/journals/heartbeat.py", "        if self._pid != os.getpid():\n            # uWSGI", "        if False:\n            # uWSGI", ("tests/journals/test_leases.py", "-k", "forked_child")),
    Mutant("answer-of-a-paywall-inside-for-another-proof", "src/faregate/checkout/paywall_answers.py", " and proof == _hash_proof(request)", "", BRIDGES),
    Mutant("answer-of-a-paywall-inside-from-before", "src/faregate/checkout/paywall_answers.py", "moment >= since and ", "", BRIDGES),
    Mutant("answer-of-a-paywall-inside-is-a-copy", "src/faregate/checkout/paywall_answers.py", "        return moment >= since", "        return False and moment >= since", BRIDGES),
    Mutant("mcp-closes-before-its-sweep-ends", "src/faregate/mcp/middleware.py",
           "            async with inner(server) as state:\n                self._lives += 1\n                try:\n                    async with self._sweeping():\n                        yield state\n",
           "            async with inner(server) as state, self._sweeping():\n                self._lives += 1\n                try:\n                    yield state\n",
           ("tests/adapters/test_mcp.py", "-k", "closed_after_its_sweep")),
    Mutant("checks-change-the-paid-address", "src/faregate/service/in_process.py", "or self._is_reader or _keeps_address.get():", "or self._is_reader:", ("tests/service/test_in_process.py", "-k", "address")),
    Mutant("sweeps-change-the-paid-address", "src/faregate/service/in_process.py", "        if account.pay_to == EXAMPLE_PAY_TO:", "        if True:", ("tests/service/test_in_process.py", "-k", "address")),
    Mutant("gives-back-what-others-took", ROW, "        if self.fence != lease.fence or self.state in FINAL:\n            return False\n        self._end_lease(now)", "        if self.state in FINAL:\n            return False\n        self._end_lease(now)", LEASES),
    Mutant("failed-writes-keep-leases", PROCEDURES, "        if not isinstance(error, JournalUnreadable):\n", "        if False:\n", LEASES),
    Mutant("delivered-by-two", ROW, "            self.fence = lease.fence\n", "", LEASES),
    Mutant("a-living-owner-loses-its-row", ROW, "max(self.touched_at + policy.owner_lease, owner_until) > now", "self.touched_at + policy.owner_lease > now", LEASES),
    Mutant("a-lost-key-ends-what-is-leased", OPEN_PAYMENTS, "owner_until(row, now))):\n            return False", "owner_until(row, now))) and False:\n            return False", LOST_KEYS),
    Mutant("a-lost-key-ends-what-can-be-read", OPEN_PAYMENTS, '            or record["key_id"] in self._rows.keyring.key_ids\n', "", LOST_KEYS),
    Mutant("people-discard-what-the-sweep-ends", "src/faregate/maintenance/holds.py", "if hold.state != STUCK and hold.readable:", "if False:", ("tests/cli/test_holds.py",)),
    Mutant("a-sweep-robs-a-stopped-owner", OPEN_PAYMENTS, "return dead, tuple(owner for owner in lives if owner not in dead)", "return dead, ()", OWNER_LOCKS),
    Mutant("a-lock-of-another-kernel-is-trusted", FILE_LOCKS, 'place = f"{_get_boot_id()} {', 'place = f"{', OWNER_LOCKS),
    Mutant("a-lost-session-is-a-death", SESSION_LOCKS, "            time.sleep(GRACE)\n", "", OWNER_LOCKS),
    Mutant("a-child-is-its-parent", HEARTBEAT, "    for heartbeat in list(_heartbeats):\n        heartbeat.reset()\n", "    return\n", LEASES),
    Mutant("402-for-an-open-payment-in-another-encoding", FLOW, "if not was_unused or isinstance(use, InProgress):", "if not was_unused:"),
    Mutant("paid-for-and-sold-again-after-ten-minutes", ROW, "or self.has_expired_result(now):", "and not self.has_expired_result(now):", PAID_BEFORE),
    Mutant("dropped-without-a-trace-in-redis", f"{REDIS}journal.lua", "stamp = '-1' .. row.stamp, ", "", PAID_BEFORE),
    Mutant("unfetched-and-sold-again", "src/faregate/journals/open_payments.py", "self._policy.paid_retention\n", "0.0\n", PAID_BEFORE),
    Mutant("402-for-a-transaction-that-was-learned", PROCEDURES, "                return was_unused\n", "                return True\n", STORE_TESTS),
    Mutant("402-while-unknown", FLOW, "            return (yield from _answer_settlement(backend, request, payment, settlement))\n"
           "        case Replayable(",
           "            return (yield from _ask_for_new_payment(backend, request, payment.transaction_id))\n"
           "        case Replayable("),
    Mutant("402-after-paid-without-result", RECOVERY, '            return (yield from close_paid(backend, payment, receipt, "not_started"))\n'
           "        case TransactionState.AUTHORIZED:",
           '            yield from close_paid(backend, payment, receipt, "not_started")\n'
           '            return PaymentFailed("payment_failed")\n'
           "        case TransactionState.AUTHORIZED:"),
    Mutant("handler-forges-payment-response", RESPONSES, '        "payment-response",\n', ""),
    Mutant("shared-caches", RESPONSES, 'NO_STORE: Header = ("Cache-Control", "private, no-store")',
           'NO_STORE: Header = ("Cache-Control", "public")'),
    # The middleware
    Mutant("pass-before-paid", ASGI_RESPONDER, "        elif self.checkout.state not in PASSING:\n"
           "            return self._take(message)\n        elif not self._may_pass(message) or",
           "        elif self.checkout.state not in (*PASSING, AUTHORIZED):\n            return self._take(message)\n"
           "        elif (self.checkout.state is not AUTHORIZED and not self._may_pass(message)) or", ADAPTER_TESTS),
    Mutant("verdict-not-enforced", ASGI_RESPONDER, "        elif self.checkout.state not in PASSING:\n"
           "            return self._take(message)\n        elif not self._may_pass(message) or",
           "        elif self.checkout.state not in (*PASSING, DECIDED):\n            return self._take(message)\n"
           "        elif (self.checkout.state is not DECIDED and not self._may_pass(message)) or", ADAPTER_TESTS),
    Mutant("options-runs-the-work", CHECKOUT, 'if incoming.request.method == "OPTIONS" and self.state is not DECIDED:', "if False:", ADAPTER_TESTS),
    Mutant("refused-prefix-is-free", CHECKOUT, "            if self.path_match.refused:\n", "            if False:\n", REFUSED),
    Mutant("second-call-for-a-prefix", CHECKOUT, "        if self.is_prefix_called:\n", "        if False:\n", ("tests/adapters/test_one_call.py",)),
    Mutant("prefix-below-a-root-path", PATH_RULES, "for end in ends)", "for end in ends[-1:])", ("tests/adapters/test_prefixes.py",)),
    Mutant("target-that-is-no-path", PATH_RULES, " or not _is_path(path, root):", ":", ("tests/adapters/test_prefixes.py",)),
    Mutant("cookies-of-the-unsold", RESPONSES, "headers = tuple(pair for pair in _filter_headers(response.headers) if not _OF_RESULTS.match(pair[0]))",
           "headers = _filter_headers(response.headers)", STATE),
    Mutant("idempotency-keys-outside", WRAPPERS, "cache|idempoten|static|", "cache|static|", ANSWERS),
    Mutant("not-modified-is-no-result", WITHHOLDING, "if status == 402 or not is_harmless_error(status):", "if status in (200, 402):", ANSWERS),
    Mutant("shadowed-by-a-mount", HANDLER_RESOLVER, "            yield from list_below(endpoint, inner, prefix_offers)\n", "            continue\n", SHADOW_TESTS),
    Mutant("route-added-in-lifespan", STARLETTE, 'message["type"] == "lifespan.startup.complete" and self._has_changed()',
           "False", SHADOW_TESTS),
    Mutant("price-that-no-route-solves", HANDLERS, "        if offer not in offers:\n            yield _UNASKED", "        if False:\n            yield _UNASKED", UNASKED),
    Mutant("gate-that-is-not-awaited", STARLETTE, "            authorization = authorize(request, sold, partial(_ask_with_request, request), prices_inside)\n"
           "            return answer(request, authorization, args, kwargs)",
           "            async def ask() -> Any:\n"
           "                asked = authorize(request, sold, partial(_ask_with_request, request), prices_inside)\n"
           "                return await answer(request, asked, args, kwargs)\n"
           "            return ask()", UNASKED),
    Mutant("price-that-is-not-awaited", "src/faregate/fastapi.py", "        return _authorize(authorize(connection, self._sold, ask), response)",
           "        async def ask_late() -> Payment:\n"
           "            return await _authorize(authorize(connection, self._sold, ask), response)\n"
           "        return ask_late()", UNASKED),
    Mutant("exception-answered-outside", ASGI_RESPONDER, "    if is_harmless_error(status):\n        return None\n    log(", "    if True:\n        return None\n    log(",
           ("tests/adapters/test_exception_answers.py",)),
    Mutant("session-changed-by-a-held-answer", ASGI_RESPONDER, "        if not response.released and self._session is not None:", "        if False:",
           ("tests/adapters/test_fastapi.py", "-k", "changes_the_session")),
    Mutant("host-that-no-price-reaches", "src/faregate/fastapi.py", "isinstance(route, Route | WebSocketRoute | Mount | Host):",
           "isinstance(route, Route | Mount):", MISTAKES),
    Mutant("websocket-is-free", ASGI, "if not is_protected and", "if", ADAPTER_TESTS),
    Mutant("completion-can-be-cut-off", ASYNC_CHECKOUT, "await run(partial(self._drive_to_end, flow, result))", "await self._drive_to_end(flow, result)", ADAPTER_TESTS),
    Mutant("cancel-strikes-a-completion", SHIELDING, "task.is_putting_off, token = True, _unc", "task.is_putting_off, token = False, _unc", ("tests/checkout/test_shielding.py",)),
    Mutant("paths-that-are-read-twice", PATH_RULES, "_URL_END.split(_DROPPED.sub(\"\", decoded))[0]", "decoded", ("tests/adapters/test_prefixes.py",)),
    Mutant("virtual-root-avoids-a-prefix", PATH_RULES, "is_twice or _VIRTUAL_ROOT in named or", "is_twice or", ("tests/adapters/test_prefixes.py", "-k", "where_the_path_begins")),
    Mutant("wsgi-headers-avoid-a-prefix", WSGI, "match(path, root_path, list_path_headers(environ))", "match(path, root_path)", ("tests/adapters/test_wsgi_edges.py", "-k", "where_the_path_begins")),
    Mutant("asgi-headers-avoid-a-prefix", ASGI, "() if self.path_rules.is_empty else _list_path_headers(scope)", "()", ("tests/adapters/test_prefixes.py", "-k", "taken_off_the_path")),
    Mutant("script-name-taken-off-twice", PATH_RULES, "_MAX_REMOVALS = 3", "_MAX_REMOVALS = 1", ("tests/adapters/test_prefixes.py", "-k", "middleware_and_the_router")),
    Mutant("script-name-avoids-a-prefix", PATH_RULES, "            behind_headers += _list_rests(readings, path, headers.get(name, \"\"), _MAX_REMOVALS)\n", "            pass\n", ("tests/adapters/test_prefixes.py", "-k", "taken_off_the_path")),
    Mutant("script-name-that-is-not-plain", PATH_RULES, "not all(map(_PLAIN_ROOT.fullmatch, roots))", "False", ("tests/adapters/test_prefixes.py", "-k", "taken_off_the_path")),
    Mutant("root-path-inside-avoids-a-prefix", PATH_RULES, "[text for text in _list_rests((_normalize(path),), path, root) if text not in readings]", "list[str]()", ("tests/adapters/test_prefixes.py", "-k", "wherever_it_is")),
    Mutant("view-avoids-a-prefix", PATH_RULES, "part.lstrip(_VIEW_MARKS) or part", "part", ("tests/adapters/test_prefixes.py", "-k", "mark_of_a_view")),
    Mutant("tildes-avoid-a-prefix", PATH_RULES, "(*decodings, *tilded)", "decodings", ("tests/adapters/test_prefixes.py", "-k", "tildes")),
    Mutant("cheaper-of-two-prices", PATH_RULES, "match.protected and not _is_alike(rare, match)", "False", ("tests/adapters/test_prefixes.py", "-k", "two_prices")),
    Mutant("folded-to-a-cheaper-prefix", PATH_RULES, "if self._is_folded_to_another_offer(paths, readings, match):", "if False:", ("tests/adapters/test_prefixes.py", "-k", "cheaper_one")),
    Mutant("folded-twice-to-a-cheaper-prefix", PATH_RULES, "(plain.protected or self._has_two_offers(readings))", "plain.protected", ("tests/adapters/test_prefixes.py", "-k", "cheaper_one")),
    Mutant("stream-in-one-piece", ASGI_RESPONDER, "self._is_stream or message.get(\"more_body\", False)", "self._is_stream or bool(self._chunks)", ("tests/adapters/test_fastapi.py", "-k", "that_are_cut")),
    Mutant("stream-cut-some-turns-later", ASGI_RESPONDER, "for _ in range(20):\n                    await anyio.low", "for _ in range(5):\n                    await anyio.low", ("tests/adapters/test_fastapi.py", "-k", "after_its_end")),
    Mutant("refused-below-a-sold-prefix", PATH_RULES, "        if prefix is not None and any(_is_below(closed, prefix) for closed in refused):\n            prefix = None\n", "", ("tests/adapters/test_prefixes.py", "-k", "longer_of")),
    Mutant("daphne-root-chooses-a-price", PATH_RULES, "if root and self.clients_set_root:", "if False:", ("tests/adapters/test_prefixes.py", "-k", "daphne")),
    Mutant("copied-with-what-is-above", PATH_RULES, "match.protected or self._has_prefix_below((*readings, *rare_readings))", "match.protected", ("tests/adapters/test_prefixes.py", "-k", "not_copied")),
    Mutant("copied-from-a-prefix", PATH_RULES, "match.protected or self._has_prefix_below((*readings, *rare_readings))", "self._has_prefix_below((*readings, *rare_readings))", ("tests/adapters/test_prefixes.py", "-k", "not_copied")),
    Mutant("prefix-before-published-objects", ASGI, "        check_publishers(self.path_rules)\n", "", ("tests/adapters/test_prefixes.py", "-k", "published")),
    Mutant("wsgi-prefix-before-published-objects", WSGI, "        check_publishers(self.path_rules)\n", "", ("tests/adapters/test_wsgi_edges.py", "-k", "zope")),
    Mutant("dot-dot-is-admitted", PATH_RULES, "    if any(map(_is_ambiguous, _list_decodings(path))) or not _is_path(path, root):\n        return True\n", "", ADAPTER_TESTS),
    Mutant("flask-prefix-past-the-paywall", FLASK_DECORATORS, "    if entered is None or entered[0] is not app.extensions[NAME]:", "    if False:", ("tests/adapters/test_flask_placement.py", "-k", "past_the_paywall")),
    Mutant("flask-prefix-by-another-path", FLASK_DECORATORS, "if not seen.protected or seen.offer != routed.offer:", "if False:", REWRITTEN),
    Mutant("django-prefix-by-another-path", DJANGO + "requests.py", "if routed_path != path and not path_match.ambiguous:", "if False:", REWRITTEN),
    Mutant("letters-of-routers-without-case", PATH_RULES, "path.translate(_TURKISH_I).casefold()", "path.casefold()", REWRITTEN),
    Mutant("prefix-in-the-languages-of-another-urlconf", DJANGO + "conf.py", "get_resolver(get_urlconf())", "get_resolver()", ("tests/adapters/test_django_placement_stack.py", "-k", "urlconf_that_a_request_sets")),
    Mutant("translation-leads-outside-of-a-prefix", DJANGO + "price_placement.py", "            *_find_translated_outside(resolver, rules),\n", "", ("tests/adapters/test_django_placement_stack.py", "-k", "translation_leads")),
    Mutant("pattern-that-matches-outside-of-a-prefix", DJANGO + "price_placement.py", "if not rules.match(other).protected and next(", "if False and next(", ("tests/adapters/test_django_placement_stack.py", "-k", "also_matches_outside")),
    Mutant("class-that-is-sold-and-given-away", DJANGO + "price_placement.py", "    if not isinstance(kind, type):\n", "    if kind is not Ellipsis:\n", ("tests/adapters/test_django_placement.py", "-k", "class_that_is_sold")),
    Mutant("error-after-a-late-price", WSGI, "            checkout.check_late()\n            return self._start", "            return self._start", ("tests/adapters/test_wsgi_edges.py", "-k", "own_error")),
    Mutant("flask-class-that-is-sold-and-given-away", "src/faregate/flask/price_placement.py", "return any(inner in made for", "return any(False for", ("tests/adapters/test_flask_placement.py", "-k", "class_that_is_sold")),
    Mutant("missing-middleware-is-free", ASGI_RESPONDER, "    if responder is None:\n        raise",
           "    if responder is None:\n"
           "        return Payment(None)\n        raise", ADAPTER_TESTS),
    Mutant("wsgi-pass-before-paid", WSGI, "            checkout.buffer.start(code, tuple(headers))\n"
           "            return self._append",
           "            return self._start_response(status, headers)", WSGI_TESTS),
    Mutant("wsgi-verdict-not-enforced", WSGI, "            if not checkout.allow_unpaid(code, lambda: tuple(headers)):",
           "            if checkout.state is not DECIDED and not checkout.allow_unpaid(code):", WSGI_TESTS),
    Mutant("a-result-that-lost-a-part-is-sold", "src/faregate/checkout/buffer.py", "            self.failure = ResultCutShort(_STARTED_AGAIN)\n", "            pass\n", ("tests/checkout/test_buffer.py",)),
    Mutant("wsgi-missing-middleware-is-free", WSGI, "    checkout = find_checkout(environ)\n    if checkout is None:\n        raise ConfigurationError(\n            f\"A handler", "    checkout = find_checkout(environ)\n    if checkout is None:\n        return Payment(None)\n        raise ConfigurationError(\n            f\"A handler", WSGI_TESTS),
    Mutant("wsgi-refused-runs", WSGI, "if path_match.refused and path_match.offer is None and self.is_opaque:", "if False:", WSGI_EDGES),
    # Flask
    Mutant("flask-missing-extension-is-free", FLASK_DECORATORS, "    if NAME not in app.extensions:\n        raise ConfigurationError(_NO_PAYWALL.format(sells=sold.sells))\n    if isinstance", "    if NAME not in app.extensions:\n        return None\n    if isinstance", FLASK_TESTS),
    Mutant("flask-cache-above-gives-away", FLASK_DECORATORS, "        checkout.withhold(bypass.mistake)\n", "        return response\n", FLASK_TESTS),
    Mutant("flask-refused-runs", FLASK_DECORATORS, "if checkout is None or not checkout.path_match.refused:\n", "if True:\n", FLASK_TESTS),
    # Django
    Mutant("django-sends-before-it-is-paid", DJANGO + "middleware.py", "            read_response(response, checkout)\n"
           "            answer = checkout.complete()",
           "            return response", DJANGO_TESTS),
    Mutant("django-verdict-not-enforced", DJANGO + "middleware.py", "            if checkout.allow_unpaid(",
           "            if checkout.state is DECIDED or checkout.allow_unpaid(", DJANGO_TESTS),
    Mutant("django-charges-before-the-login", DJANGO + "offers.py", "    if is_price(view):\n", "    if True:\n", DJANGO_TESTS),
    Mutant("two-prices-are-fine", ROUTE_PRICING, '"paid" if len(offers) == 1 else "refused"', '"paid"', (*DJANGO_TESTS, *ROUTE_TESTS)),
    Mutant("django-session-is-stored-unpaid", DJANGO + "state.py", "self._session = _DeferredWrites(session) if is_stored else None", "self._session = None", DJANGO_STATE),
    Mutant("django-refused-runs", DJANGO + "middleware.py", "    checkout.refuse_unsold()\n"
           "    return True\n",
           "    return False\n", DJANGO_PLACEMENT),
    Mutant("django-starts-although-files-are-free", DJANGO + "middleware.py", "        _check_start()\n", "        conf.get_config()\n", DJANGO_PLACEMENT),
    Mutant("host-header-trusted", "src/faregate/merchant/resource_url.py", "if self._trust_host and", "if", ADAPTER_TESTS),
    Mutant("two-proofs", REQUEST_HEADERS, "if names.count(PROOF) > 1:", "if False:", CORE),
    Mutant("overtaken-write-is-believed", ROW_ACCESS, 'return new if record is not None and record["stamp"] == new else None', "return new", STORE_TESTS),
    Mutant("redis-answered-write-is-sent-again", REDIS + "client.py", " if errors.needs_connection(reply)]", "]",
           ("tests/journals/test_redis_batches.py",)),
    Mutant("last-of-a-batch-decides-on-its-sync", "src/faregate/journals/postgres/store.py", "any(task.work.durable for task in batch)",
           "bool(batch[-1].work.durable)", ("tests/journals/test_postgres_batches.py",)),
    Mutant("simulation-ends-a-real-payment", "src/faregate/service/simulated_payments.py", "if attempt.from_block is not None:", "if False:",
           ("tests/service/test_simulated.py",)),
    Mutant("one-transaction-in-two-rows", SQLITE + "schema.py",
           "CONSTRAINT one_row_per_transaction UNIQUE (namespace, transaction_id),", "", STORE_TESTS),
    Mutant("not-forced-to-the-disk", SQLITE + "database.py", "'FULL' if durable else 'NORMAL'", "'NORMAL' if durable else 'NORMAL'", BATCH_TESTS),
    Mutant("journal-written-where-signals-raise", SQLITE + "database.py", "threading.current_thread() is not threading.main_thread()", "True", BATCH_TESTS),
    Mutant("forced-to-the-disk-by-its-first-only", SQLITE + "database.py", "any(task.work.durable for task in batch)", "batch[0].work.durable", BATCH_TESTS),
    Mutant("written-after-it-gave-up", WRITER, "                if task.withdraw():\n                    raise self._make_error()\n                wakeup", "                if True:\n                    raise self._make_error()\n                wakeup", WRITER_TESTS),
    Mutant("work-that-was-done-is-done-again", WRITER, "if task.try_begin():  # else", "if task.try_begin() or True:  # else", BATCH_TESTS),
    Mutant("main-thread-writes-for-others", WRITER, "[task] if is_main else _take_batch", "[task] if False else _take_batch", BATCH_TESTS),
    Mutant("written-after-a-turn-that-never-came", WRITER, "                if task.withdraw():\n                    raise self._make_error()\n                turn",
           "                if True:\n                    raise self._make_error()\n                turn", BATCH_TESTS),
    Mutant("answered-before-the-commit", WRITER, "        execute(batch)\n", "        answer_all(batch)\n        execute(batch)\n", WRITER_TESTS),
    Mutant("encrypted-values-move", ENCRYPTION, '_hash(key.encryption, row)', "key.encryption", STORE_TESTS),
    # The client
    Mutant("live-key-with-memory", "src/faregate/settings.py", 'if settings.api_key.environment == "live":\n        raise ConfigurationError(\n            "A live key with the memory',
           'if False:\n        raise ConfigurationError(\n            "A live key with the memory', ("tests/core",)),
    # The emulator and the payers of the command line: what a seller's tests, and a payer's money, rely on
    Mutant("an-authorization-is-used-twice", ACCESS, "if received.payment is None or received.uses.by_authorization is not None:", "if received.payment is None:", REBUILT),
    Mutant("funds-are-reserved-twice", "src/faregate/service/database/types.py", "return funds is None or int(value) + spent <= int(funds)", "return True", ("tests/service/test_store.py", "tests/service/test_concurrency.py")),
    Mutant("a-new-revision-is-not-looked-for-once-more", DATABASE + "sql_store.py", "return revision or self._reload().catalog.find_revision(revision_id)", "return revision", ("tests/service/test_in_process.py", "-k", "newer_code")),
    Mutant("an-old-price-is-paid-for-ever", ACCESS, "if now >= open_until or len", "if len", ("tests/service/test_in_process.py", "-k", "402")),
    Mutant("an-old-payment-under-a-new-revision", FLOW, "is_known = claim.transaction_id == transaction_id", "is_known = False", ("tests/core/test_revisions.py",)),
    Mutant("complete-with-other-bytes", COMPLETE, "    if not transaction.is_proof(payment.header):", "    if False:", REBUILT),
    # The contract of the service: what the emulator and the service answer alike
    Mutant("pending-is-answered-like-succeeded", COMPLETE, "return json_response(result, status=202, headers=(RETRY_SOON,))", "return json_response(result, headers=(RETRY_SOON,))", COMPLETE_TESTS),
    Mutant("failed-work-is-charged", SERVICE_RULES + "memory_store.py", "return self.record_failed(record, None)", "record.submitted_at = self.clock.tick()", COMPLETE_TESTS),
    Mutant("another-outcome-after-the-first", COMPLETE, "if accepted.outcome != request.outcome:", "if False:", COMPLETE_TESTS),
    Mutant("other-values-after-the-first", COMPLETE, "if _get_values(accepted) != _get_values(request):", "if False:", COMPLETE_TESTS),
    Mutant("complete-under-another-revision", COMPLETE, "if transaction.context.revision.id != request.revision_id:", "if False:", COMPLETE_TESTS),
    Mutant("an-authorization-ends-early", SERVICE_RULES + "settlement.py", "if rule is None or at.timestamp() >= transaction.payment.valid_before:\n        return settle(transaction, deps, at=at)",
           "if at.timestamp() + 5 >= transaction.payment.valid_before:\n        return deps.store.record_failed(transaction, at)\n    if rule is None:\n        return settle(transaction, deps, at=at)", COMPLETE_TESTS),
    Mutant("a-price-that-was-switched-on-is-free", ACCESS, "if not listing.require_payment:", "if not listing.resource.require_payment:", ACCESS_TESTS),
    Mutant("an-old-revision-is-sold", ACCESS, "if revision.id != listing.active.id and not deps.sells_earlier:", "if False:", ACCESS_TESTS),
    Mutant("another-asset-pays", ACCESS, "if revision.token.symbol != request.settlement_asset:", "if False:", ACCESS_TESTS),
    Mutant("a-payment-buys-another-address", ACCESS, "listing.id and context.request.resource.url == request.resource.url", "listing.id", ACCESS_TESTS),
    Mutant("402-while-payments-cannot-be-verified", ACCESS, 'raise HttpError(UNAVAILABLE, "payments cannot be verified at present", (RETRY_SOON,)) from None',
           'return PaymentRefused("payments cannot be verified at present")', ACCESS_TESTS),
    Mutant("instructions-can-be-rebuilt", "src/faregate/x402/headers.py", "return _encode_base64(before + challenge + after)", "return _encode_base64(text)", REBUILT),
    # The SQL store of the self-hosted service
    Mutant("prepared-behind-a-pooler", DATABASE + "engine.py", "is_prepared=not is_behind_pooler", "is_prepared=True", ("tests/service/test_engine.py",)),
    Mutant("statements-of-others-are-executed", DATABASE + "statements.py", "blake2b(sql, digest_size=16)", "blake2b(b\"%d\" % len(self._prepared), digest_size=16)", ("tests/service/test_engine.py",)),
    Mutant("sql-outcome-twice", DATABASE + "transactions.py", "where(OF_ID, T.outcome.is_(None))", "where(OF_ID)", SQL_STORE),
    Mutant("sql-payment-ends-twice", DATABASE + "transactions.py", "    .where(OF_ID, IS_OPEN)\n", "    .where(OF_ID)\n", SQL_STORE),
    Mutant("sql-reserved-is-spent", DATABASE + "authorization.py", "return sum(reservation.value for reservation in self.reservations)", "return 0",
           ("tests/emulator/test_settlement.py", "-k", "sqlite")),
    Mutant("sql-authorization-is-used-twice", DATABASE + "authorization.py", "_OF_PAYER, T.nonce == bindparam(\"nonce\")", "_OF_PAYER, T.nonce != bindparam(\"nonce\")",
           ("tests/emulator/test_access.py", "-k", "sqlite")),
    Mutant("sql-two-attempts-at-once", DATABASE + "attempts.py", "T.parked_at.is_(None), _IS_FREE)", "T.parked_at.is_(None))", SQL_STORE),
    Mutant("sql-an-attempt-is-lost-in-a-power-cut", DATABASE + "attempts.py", "rows = database.change(_BEGIN_ON_SQLITE, values, then=_WRITE_ON_SQLITE)", "rows = database.change(_BEGIN_ON_SQLITE, values, then=_WRITE_ON_SQLITE, durable=False)", ("tests/service/test_in_process.py", "-k", "disk")),
    Mutant("sql-a-first-attempt-is-lost-in-a-power-cut", DATABASE + "attempts.py", "database.change(_SUBMIT_ON_SQLITE, parameters, then=_WRITE_ON_SQLITE)", "database.change(_SUBMIT_ON_SQLITE, parameters, then=_WRITE_ON_SQLITE, durable=False)", ("tests/service/test_sale_cost.py",)),
    Mutant("sql-a-first-attempt-is-not-written", DATABASE + "attempts.py", "database.change(_SUBMIT_ON_SQLITE, parameters, then=_WRITE_ON_SQLITE)", "database.change(_SUBMIT_ON_SQLITE, parameters)", ("tests/service/test_store.py", "-k", "first_attempt")),
    Mutant("sql-the-lease-of-the-living-ends", DATABASE + "owners.py", "self._locks.judge(owners).items() if not lives]", "self._locks.judge(owners).items()]", ("tests/service/test_owners.py", "-k", "sqlite")),
    Mutant("sql-attempt-before-completion", DATABASE + "attempts.py", "T.submitted_at.is_not(None), T.finished_at.is_(None), T.parked_at", "T.finished_at.is_(None), T.parked_at", SQL_STORE),
    Mutant("sql-lease-is-not-fenced", DATABASE + "attempts.py", ".where(OF_ID, T.finished_at.is_(None), T.attempts == _NUMBER)", ".where(OF_ID, T.finished_at.is_(None))", SQL_STORE),
    Mutant("real-money-unasked", PAY + "wallet.py", "self._networks = (_TEST, _LIVE) if live else (_TEST,)", "self._networks = (_TEST, _LIVE)", ("tests/pay",)),
    Mutant("open-payment-forgotten", PAY + "purchase.py", "        yield self.backend.call(partial(self.payment_file.save, payment))\n", "", ("tests/pay",)),
    Mutant("any-402-frees-the-payer", PAY + "purchase.py", "return message.transaction_id is not None or message.message in (NOT_TAKEN, *UNCHARGED)", "return True", PAY_TESTS),
    Mutant("open-payment-called-refused", PAY + "purchase.py", "if not is_uncharged and not self._is_open:", "if not is_uncharged:", PAY_TESTS),
    Mutant("error-frees-an-open-payment", PAY + "purchase.py", "is_uncharged = not self._is_open and is_refused_by_handler(", "is_uncharged = is_refused_by_handler(", PAY_TESTS),
    Mutant("resent-payment-called-refused", PAY + "purchase.py", "            yield from self._record(replace(saved, is_open=True))\n", "", PAY_TESTS),
    Mutant("valid-payment-replaced", PAY + "payment_file.py", "return now.timestamp() > self.valid_until + _CLOCK_TOLERANCE", "return True", PAY_TESTS),
    Mutant("open-payment-dropped", PAY + "transports.py", "        if not result.is_decided:\n            return result\n", "", PAY_TESTS),
    Mutant("equal-purchases-mixed", PAY + "transports.py", "        yield from self._take_lock(backend)\n", "", PAY_TESTS),
    # Facilitators: what they say decides nothing about a payment that may have been sent
    Mutant("a-facilitator-is-believed", FACILITATED, "return self._chain.look(payment, terms, attempt)",
           "return PaymentSettled(attempt.hashes[-1]) if attempt.hashes else SettlementPending()", SETTLE_TESTS),
    Mutant("two-facilitators-settle-at-once", FACILITATED, "chosen.settle(payment, terms, amount)", "[one.settle(payment, terms, amount) for one in (*self._facilitators, chosen)][-1]", VERIFY_TESTS),
    Mutant("valid-at-any-status", FACILITATOR, "if is_valid is True and response.status == 200:", "if is_valid is True:", CLIENT_TESTS),
    Mutant("anybody-signs-for-a-payer", SERVICE_RULES + "verification.py", "if signer is None or signer.lower() != payment.payer:", "if signer is None:", VERIFY_TESTS),
    # What a chain proves (payments/)
    Mutant("a-token-of-anybody-pays", CHAIN + "evidence.py", "return log.address == token.address.lower() and log.topics == topics\n", "return log.topics == topics\n", CHAIN_TESTS),
    Mutant("flask-asks-first-though-a-function-may-answer", "src/faregate/flask/first_prices.py", "any(app.before_request_funcs.values()) or ", "", ("tests/routes/test_flask_first_prices.py",)),
    Mutant("flask-asks-first-for-a-view-that-was-replaced", "src/faregate/flask/first_prices.py", "isinstance(view, FunctionType) and is_price(view)", "hasattr(view, OFFER)", ("tests/routes/test_flask_first_prices.py",)),
    Mutant("confirmations-are-not-waited-for", CHAIN + "settlement_verdict.py", "_get_head(node, query).number - self.confirmations + 1", "_get_head(node, query).number", CHAIN_TESTS),
    Mutant("a-block-that-was-replaced-counts", CHAIN + "settlement_verdict.py", "if block is None or block.hash != ending.block_hash:", "if block is None:", CHAIN_TESTS),
    Mutant("unused-is-failed", CHAIN + "settlement_verdict.py", "if safe.timestamp < payment.valid_before:", "if False:", CHAIN_TESTS),
    Mutant("expired-though-used-in-a-safe-block", CHAIN + "settlement_verdict.py", "payment.nonce, safe.number):", "payment.nonce, safe.number) and False:", CHAIN_TESTS),
    # Prices that follow the use
    Mutant("a-use-is-rounded-down", USAGE_PRICES, "ceil(price.fixed_atomic + sum(used))", "int(price.fixed_atomic + sum(used))", USAGE_PRICE_TESTS),
    Mutant("each-part-of-a-use-is-rounded-up", USAGE_PRICES, "sum(used))", "sum(map(ceil, used)))", USAGE_PRICE_TESTS),
    Mutant("a-use-takes-more-than-the-maximum", USAGE_PRICES, "UsedAmount(min(amount, price.maximum_atomic), amount", "UsedAmount(amount, amount", USAGE_PRICE_TESTS),
    Mutant("a-use-of-nothing-settles-nothing", USAGE_PRICES, "max(ceil(price.fixed_atomic + sum(used)), price.least_atomic)", "ceil(price.fixed_atomic + sum(used))", USAGE_PRICE_TESTS),
    Mutant("a-price-by-use-is-asked-as-a-fixed-one", ACCESS, "    if not facilitators:\n", "    if False:\n", ("tests/service/test_usage_on_chain.py", "-k", "without_the_scheme")),
    Mutant("what-has-a-rate-need-not-be-reported", SERVICE_RULES + "account.py", "Value(name=value, required=True) for value in price.rates", "Value(name=value) for value in price.rates", SOLD_BY_USE),
    Mutant("the-use-is-not-recorded-with-the-outcome", SQL + "transactions.py", "SUBMIT.values(used_amount=_USED)", "SUBMIT", ("tests/emulator/test_usage_prices.py", "--full")),
    Mutant("the-ledger-moves-the-maximum", SERVICE_RULES + "payments.py", "payment if attempt.amount is None else replace(payment, value=attempt.amount)", "payment", ("tests/emulator/test_usage_prices.py",)),
    Mutant("the-database-moves-the-maximum", SELFHOSTED + "simulated_payments.py", "amount = payment.value if attempt.amount is None else attempt.amount", "amount = payment.value", ("tests/emulator/test_usage_prices.py", "--full")),
    Mutant("the-receipt-says-the-maximum", SERVICE_RULES + "records.py", "return transaction.context.terms.amount if used is None else used", "return transaction.context.terms.amount", ("tests/emulator/test_usage_prices.py",)),
    Mutant("rates-change-unasked", SQL + "apply.py", "is_other_price = made.rules.price_terms != before.rules.price_terms", "is_other_price = made.rules.amount != before.rules.amount", ("tests/service/test_usage_prices.py",)),
    Mutant("other-rates-sell-under-a-published-id", SQL + "publish.py", "if revision.rules == wanted", "if revision.rules.amount == wanted.amount", SOLD_BY_USE),
    Mutant("an-earlier-price-that-is-never-reported", ACCESS, " and revision.rules.required_values <= named.rules.required_values:", ":", SOLD_BY_USE),
    Mutant("an-earlier-price-gets-the-values-of-another", COMPLETE, "for name, value in request.values.items() if name in names}", "for name, value in request.values.items()}", SOLD_BY_USE),
    Mutant("work-begins-that-can-never-be-completed", ACCESS, "earlier = _end_incompletable(earlier, named, store)", "pass", (*SOLD_BY_USE, "-k", "killed")),
    Mutant("a-proof-ends-the-payment-of-another-address", ACCESS, "earlier is not None and _is_same_purchase(earlier, listing, request):", "earlier is not None:", (*SOLD_BY_USE, "-k", "open_elsewhere")),
    Mutant("a-fixed-price-is-taken-for-a-maximum", ACCESS, 'paid = payment.scheme == "upto", payment.value, asset', "paid = named.rules.usage is not None, payment.value, asset", SOLD_BY_USE),
    # Parts of authorizations (scheme `upto`)
    Mutant("another-permit-with-the-nonce-pays", CHAIN + "authorization_endings.py", "if call != build_permit_call(payment, token, call.amount):", "if False:", USAGE_TESTS),
    Mutant("a-call-without-its-transfer-pays", CHAIN + "authorization_endings.py", "elif has_received(receipt, token, payment, call.amount):", "else:", USAGE_TESTS),
    Mutant("a-call-inside-another-is-a-refusal", CHAIN + "authorization_endings.py", 'if node.has_code(payment.facilitator or "", block.number):', "if False:", USAGE_TESTS),
    Mutant("a-block-that-was-replaced-is-believed", CHAIN + "authorization_endings.py", "is_found = block is not None and was_used(first) and not (first > 0 and was_used(first - 1))", "is_found = True", USAGE_TESTS),
    Mutant("a-reverted-call-is-the-end", CHAIN + "authorization_endings.py", "if receipt.status == 1:  # else it came too late", "if True:", USAGE_TESTS),
    Mutant("a-permit-of-any-nonce-pays", CHAIN + "authorization_endings.py", "return (call.payer, call.nonce) == (payment.payer, int(payment.nonce))", "return call.payer == payment.payer", USAGE_TESTS),
    Mutant("a-nonce-of-permit2-is-never-used", CHAIN + "node.py", "return bool(bits >> bit & 1)", "return False", USAGE_TESTS),
    Mutant("permit2-is-over-a-second-early", "src/faregate/x402/headers.py", 'valid_before=_get_number(permit, "deadline") + 1', 'valid_before=_get_number(permit, "deadline")', ("tests/x402/test_permit2.py",)),
    Mutant("anybody-settles-a-part", SERVICE_RULES + "verification.py", "if payment.facilitator is not None and payment.facilitator not in map(str.lower, terms.facilitators):", "if False:", ("tests/rules/test_usage_verification.py",)),
    Mutant("a-part-is-taken-for-a-fixed-price", SERVICE_RULES + "verification.py", "if payment.scheme != terms.scheme:", "if False:", ("tests/rules/test_usage_verification.py",)),
    Mutant("more-than-authorized-is-signed", CHAIN + "permit_calls.py", "if not 0 < amount <= payment.value:", "if False:", USAGE_TESTS),
    Mutant("an-approval-is-not-looked-at", CHAIN + "chain_reader.py", "        if allowed >= needed:\n", "        if True:\n", USAGE_PAYMENT_TESTS),
    Mutant("a-facilitator-settles-the-maximum", FACILITATED, "chosen.settle(payment, terms, amount)", "chosen.settle(payment, terms)", USAGE_PAYMENT_TESTS),
    Mutant("the-gas-account-settles-the-maximum", DIRECT + "backend.py", "*_build_call(payment, terms, amount), gas_nonce", "*_build_call(payment, terms, payment.value), gas_nonce", USAGE_PAYMENT_TESTS),
    Mutant("an-unknown-amount-settles-the-maximum", SERVICE_RULES + "payments.py", "return payment.value if payment.facilitator is None else attempt.amount", "return payment.value if attempt.amount is None else attempt.amount", USAGE_PAYMENT_TESTS),
    Mutant("a-contract-is-offered-as-a-facilitator", FACILITATED, "if not self._chain.is_contract(address)", "if True", USAGE_PAYMENT_TESTS),
    Mutant("a-node-of-another-chain", CHAIN + "chain_reader.py", "if chain != self.chain:", "if False:", CHAIN_TESTS),
    Mutant("one-node-proves-a-settlement", CHAIN + "chain_reader.py", "return self._agreement.confirm(*proof, self.client.nodes, query)", "return proof[1].result", AGREEMENT_TESTS),
    Mutant("no-contract-says-unused", CHAIN + "node.py", "if len(word) != 32:", "if False:", CHAIN_TESTS),
    # The service's own gas account (payments/direct/)
    Mutant("a-transfer-that-must-revert-is-signed", DIRECT + "gas_account.py", "if not error.is_revert:\n            raise\n        return TransferReverts(_find_reason(error))", "if not error.is_revert:\n            raise\n        return 80_000", DIRECT_TESTS),
    Mutant("a-mined-transfer-is-signed-again", DIRECT + "backend.py", "if self.account.is_any_successful({*attempt.hashes, signed.transaction_hash}):", "if False:", DIRECT_TESTS),
    Mutant("the-books-are-believed-about-gas-nonces", DIRECT + "gas_account.py", "nonce = max(gas_nonce or 0, conditions.next_nonce)", "nonce = gas_nonce or 0", DIRECT_TESTS),
    Mutant("a-transfer-refunds-twice", SQL + "refunds.py", "        if used is not None:\n", "        if False:\n", REFUND_TESTS),
    Mutant("anybodys-transfer-is-a-refund", SELFHOSTED + "refunds.py", "if transfer.sender in senders}", "if True}", REFUND_TESTS),
    Mutant("cut-off-work-fails-unasked", COMPLETE, "elif request.failure_code == INTERRUPTED and transaction.status not in FINAL:", "elif False:", ("tests/service/test_interrupted_work.py",)),
    Mutant("cut-off-work-fails-uncertain", COMPLETE, 'raise HttpError(UNAVAILABLE, "how the payment has ended is not certain yet", (RETRY_SOON,))', "return transaction", ("tests/service/test_interrupted_work.py",)),
    Mutant("less-than-was-used-is-enough", SERVICE_RULES + "settlement.py", "amount >= attempt.amount", "amount > 0", ("tests/emulator/test_usage_prices.py",)),
    Mutant("what-settled-for-less-is-not-parked", SQL + "sql_store.py", "changed = attempts.park(connection, self.account.id, changed, clock, reason)", "pass", ("tests/service/test_usage_on_chain.py", "-k", "less")),
    Mutant("sent-before-it-is-written-down", SERVICE_RULES + "settlement.py", "        if deps.store.record_signed(transaction, attempt, signed):\n            return", "        deps.payments.send(transaction.payment, terms, replace(attempt, signed=signed))\n        if deps.store.record_signed(transaction, attempt, signed):\n            return", ("tests/service/test_direct_settlement.py",)),
    Mutant("a-mistyped-address-is-corrected", SERVICE_RULES + "account.py", "given != to_checksum_address(given)", "False", ("tests/service/test_commands.py",)),
    Mutant("an-environment-without-a-chain", "src/faregate/service/served_accounts.py", "if account.environment not in self._settings.environments:", "if False:", ("tests/service/test_served_accounts.py",)),
    Mutant("a-received-payment-is-gone-from-the-chain", RECONCILIATION, "                self._settled_payments[payment.authorization] = payment", "                pass", RECONCILIATION_TESTS),
    Mutant("a-lost-row-is-not-missed", RECONCILIATION, "            self.transfers[transfer.asset, transfer.sender, transfer.nonce] = transfer", "            pass", RECONCILIATION_TESTS),
    Mutant("a-loose-payment-is-sent-without-proof", REORGS, "self._is_unused(payment)\n\n    def _send", "True\n\n    def _send", REORG_TESTS),
    Mutant("two-workers-send-a-loose-payment", SQL + "reorg_records.py", "    .where(_OF_LOOSE, _L.ended_at.is_(None), _L.next_attempt_at <= _NOW)\n", "    .where(_OF_LOOSE)\n", REORG_TESTS),
    Mutant("another-price-under-a-published-id", SERVICE_RULES + "catalog.py", "*(rules.model_dump_json() for rules in published))", "*())", PUBLISHED_IDS),
    Mutant("books-forget-that-something-was-sent", SQL + "attempts.py", "sent_before=bool(earlier)", "sent_before=any(row.transaction_hash for row in earlier)", ATTEMPTS),
    Mutant("an-address-changes-unasked", SQL + "apply.py", "else account.pay_to != config.seller.pay_to", "else False", ("tests/service/test_commands.py",)),
    # Tools of MCP servers
    Mutant("mcp-sells-failed-tools", MCP + "results.py", 'return _ERROR if result.get("isError") else _COMPLETE', "return _COMPLETE", MCP_TESTS),
    Mutant("mcp-binds-nothing", MCP + "calls.py", "            read_body=lambda _length: serialize_bound_arguments(self._params),\n", "", MCP_TESTS),
    Mutant("mcp-binds-the-last-answers-only", MCP + "requests.py", 'if earlier := _find_earlier_answers(params.get("requestState")):', "if earlier := None:", MCP_TESTS),
    Mutant("mcp-sells-what-clients-refuse", MCP + "calls.py", "await to_thread.run_sync(check_output, result, schema)", "pass", MCP_TESTS),
    Mutant("mcp-answers-past-the-checkout", MCP + "calls.py", "self._checkout.allow_unpaid(status)", "True", MCP_MISTAKES),
    Mutant("mcp-speaks-before-it-is-paid", MCP + "calls.py", "self._outbox.is_holding = payment.transaction_id is not None", "pass", (*MCP_STREAMS, "-k", "paid_tool_says")),
    Mutant("mcp-tools-give-kept-results", MCP + "calls.py", "if is_copy(result, self._returned):", "if False:", MCP_COPIES),
    Mutant("mcp-errors-give-kept-results", MCP + "calls.py", "if is_stale(result):", "if False:", MCP_COPIES),
    Mutant("mcp-resources-give-kept-results", MCP + "middleware.py", "if is_copy(answer, returned):", "if False:", MCP_COPIES),
    Mutant("mcp-errors-carry-results", MCP + "calls.py", "                        raise NotBillable(_MADE_OF_RESULT)\n", "                        pass\n", ("tests/adapters/test_mcp.py",)),
    Mutant("mcp-raised-errors-carry-results", MCP + "calls.py", "        return NotBillable(_MADE_OF_RESULT)\n", "        return error\n", ("tests/adapters/test_mcp.py",)),
    Mutant("mcp-interceptors-are-tools", MCP + "copy_detection.py", " or (manager is not None and method == METHOD):", ":", MCP_COPIES),
    Mutant("mcp-tools-outlive-their-calls", MCP + "calls.py", "        if not self._is_released:\n", "        if False:\n", (*MCP_MISTAKES, "-k", "outlives")),
    Mutant("mcp-speaks-through-other-sessions", MCP + "side_channels.py", "(self._outbox, CURRENT_OUTBOX.get())", "(self._outbox,)", (*MCP_STREAMS, "-k", "another_session")),
    Mutant("mcp-keeps-what-tools-write-into-requests", MCP + "calls.py", "aauthorize(sold, self._prepare_work, ask)", "aauthorize(sold, lambda: _restore_nothing, ask)", ("tests/adapters/test_mcp_transports.py", "-k", "writes_into")),
    Mutant("mcp-starts-with-an-event-store", MCP + "tools.py", "        mistakes.append(EVENT_STORE)", "        pass", MCP_STREAMS),
)  # fmt: skip
