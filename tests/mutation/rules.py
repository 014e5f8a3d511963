"""Each rule that guards money, and one way to break it: exact text in the source, and what to put there."""

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
LARGE_TESTS = ("tests/journals/test_sqlite_large.py",)
UNFETCHED_TESTS = ("tests/journals/test_payment_info.py",)
PAID_BEFORE = ("tests/journals/test_paid_before.py",)
REDIS_SERVERS = ("tests/journals/test_redis_servers.py",)
PROCESS_TESTS = ("tests/journals/test_processes.py",)
LIMITS = ("tests/merchant/test_limits.py",)
ADAPTER_TESTS = (
    "tests/checkout",
    "tests/adapters/test_starlette.py",
    "tests/adapters/test_starlette_disconnects.py",
    "tests/adapters/test_prefixes.py",
)


STATE = ("tests/attacks/test_state.py", "-k", "starlette")
ANSWERS = ("tests/attacks/test_answers.py",)
COPIES = ("tests/attacks/test_copies.py",)
BODY_COPIES = ("tests/attacks/test_body_copies.py",)
COPIED_BODIES = ("tests/attacks/test_bodies.py",)
MISTAKES = ("tests/attacks/test_mistakes.py",)
ORDERS = ("tests/attacks/test_orders.py",)
UNSOLD = ("tests/routes/test_unsold.py",)
UNASKED = ("tests/attacks/test_unasked_prices.py",)
RAISED = ("tests/adapters/test_exception_answers.py",)
ONE_CALL = ("tests/adapters/test_one_call.py",)
FLASK_RAISED = ("tests/adapters/test_flask_exception_answers.py",)
DJANGO_RAISED = ("tests/adapters/test_django_exception_answers.py",)
RELEASE_RULE = ("tests/core/test_release.py",)
APPLICATIONS = ("tests/attacks/test_applications.py",)
LITESTAR_PATHS = ("tests/adapters/test_litestar_paths.py",)
RELEASE = ("tests/attacks/test_release.py", "tests/core/test_release.py")
RANGES = ("tests/attacks/test_release.py", "-k", "whole_result")
REFUSED = ("tests/attacks/test_refused.py",)
DOCSTRINGS = ("tests/adapters/test_descriptions.py",)
OPENAPI = ("tests/adapters/test_openapi.py",)
HANDLER_EXIT_TESTS = ("tests/adapters/test_handler_exits.py",)
ROUTE_TESTS = ("tests/routes/test_routes.py",)
SHADOW_TESTS = ("tests/routes/test_shadowed.py",)
BODIES = ("tests/adapters/test_request_body.py",)
WSGI_TESTS = ("tests/adapters/test_wsgi.py",)
AUDIT_TESTS = ("tests/audit/test_adapters.py",)
CHOICES = ("tests/adapters/test_choices.py", "tests/adapters/test_mcp_choices.py")
CLIENTS = ("tests/core/test_same_client.py", "tests/journals/test_same_client.py")
LEASES = ("tests/journals/test_leases.py",)
OWNER_LOCKS = ("tests/journals/test_owner_locks.py", "--full")
REVISIONS = ("tests/core/test_revisions.py",)
TOLERANCE = ("tests/merchant/test_tolerance.py", "tests/core")
ADDRESSES = ("tests/core", "tests/cli/test_journal.py")
UPGRADES = ("tests/checkout/test_upgrades.py",)
FLASK_UPGRADES = ("tests/adapters/test_flask.py", "-k", "upgrade")
WSGI_EDGES = ("tests/adapters/test_wsgi_edges.py",)
FLASK_CACHES = ("tests/adapters/test_flask_caches.py",)
FLASK_TESTS = tuple(
    f"tests/adapters/test_flask{part}.py" for part in ("", "_caches", "_commands", "_placement", "_state")
)
DJANGO_STATE = ("tests/adapters/test_django_state.py",)
DJANGO_CACHES = ("tests/adapters/test_django_caches.py",)
DJANGO_START = ("tests/adapters/test_django_start.py",)
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
RELEASE_PY = "src/faregate/core/release.py"
SETTLEMENT = "src/faregate/core/completion.py"
RECOVERY = "src/faregate/core/recovery.py"
SETTINGS = "src/faregate/settings.py"
ADDRESS = "src/faregate/merchant/address.py"
HEARTBEAT = "src/faregate/journals/heartbeat.py"
OWNER_LOCK = "src/faregate/journals/owner_locks.py"
FILE_LOCKS = "src/faregate/journals/file_locks.py"
SESSION_LOCKS = "src/faregate/journals/session_locks.py"
REQUEST_HEADERS = "src/faregate/core/request_headers.py"
OBSERVERS = "src/faregate/observers.py"
TRANSPORTS = "src/faregate/transports/"
INTERPRET = "src/faregate/merchant/interpret.py"
ROW = "src/faregate/journals/row.py"
MEMORY = "src/faregate/journals/memory.py"
PROCEDURES = "src/faregate/journals/procedures.py"
ROW_ACCESS = "src/faregate/journals/row_access.py"
OPEN_PAYMENTS = "src/faregate/journals/open_payments.py"
WRITER = "src/faregate/journals/writer.py"
ENCRYPTION = "src/faregate/journals/encryption.py"
REGISTRY = "src/faregate/journals/registry.py"
SQLITE = "src/faregate/journals/sqlite/"
REDIS = "src/faregate/journals/redis/"
DJANGO_JOURNAL = "src/faregate/django/journal/"
DJANGO = "src/faregate/django/"
RESPONSES = "src/faregate/core/responses.py"
CHECKOUT = "src/faregate/checkout/checkout.py"
ASYNC_CHECKOUT = "src/faregate/checkout/async_checkout.py"
CHOICE = "src/faregate/checkout/choice.py"
WORK = "src/faregate/checkout/work.py"
ASGI_RESPONDER = "src/faregate/checkout/asgi_responder.py"
BUFFER = "src/faregate/checkout/buffer.py"
PATH_RULES = "src/faregate/checkout/path_rules.py"
WSGI = "src/faregate/wsgi.py"
WSGI_ENVIRON = "src/faregate/checkout/wsgi_environ.py"
REQUEST = "src/faregate/checkout/request.py"
ROUTE_ACCESS = "src/faregate/routes/access.py"
ASGI = "src/faregate/asgi.py"
SHIELDING = "src/faregate/checkout/shielding.py"
WRAPPERS = "src/faregate/routes/wrappers.py"
HANDLERS = "src/faregate/checkout/handlers.py"
CALLABLES = "src/faregate/checkout/callables.py"
LIFESPAN = "src/faregate/checkout/lifespan.py"
DISPATCH = "src/faregate/routes/dispatch.py"
SNAPSHOT = "src/faregate/checkout/snapshot.py"
STARLETTE = "src/faregate/starlette.py"
FLASK_DECORATORS = "src/faregate/flask/decorators.py"
FLASK_MIDDLEWARE = "src/faregate/flask/middleware.py"
FLASK = "src/faregate/flask/"
FLASK_PLACEMENT = "src/faregate/flask/placement.py"
FLASK_EXTENSION = "src/faregate/flask/extension.py"
EMULATOR = "src/faregate/emulator/"
FACILITATOR = "src/faregate/service/chain/facilitator.py"
FACILITATED = "src/faregate/service/chain/facilitated.py"
INSTRUCTIONS = "src/faregate/x402/instructions.py"
CHAIN = "src/faregate/service/chain/"
CHAIN_TESTS = (
    "tests/service/chain/test_chain.py",
    "tests/service/chain/test_chain_together.py",
    "tests/service/chain/test_chain_faults.py",
    "tests/service/chain/test_chain_sizes.py",
)
SELFHOSTED = "src/faregate/service/"
REFUND_TESTS = ("tests/service/test_refunds.py",)
NODES_TESTS = ("tests/service/test_several_nodes.py",)
AGREEMENT_TESTS = ("tests/service/chain/test_agreement.py",)
FAILOVER_TESTS = ("tests/service/chain/test_failover.py",)
RPC_TESTS = ("tests/service/chain/test_rpc.py",)
DIRECT = "src/faregate/service/chain/direct/"
SQL = "src/faregate/service/database/"
BOOKS = ("tests/service/test_store.py",)
ATTEMPTS = ("tests/service/test_attempts.py",)
REPEATED = ("tests/service/test_repeated_completions.py",)
PARKED = ("tests/service/test_parked.py",)
PARALLEL = ("tests/emulator/test_parallel_completions.py",)
STAMPS = ("tests/service/test_stamps.py",)
CONSOLE = "src/faregate/service/console/"
CONSOLE_TESTS = ("tests/service/test_console.py",)
DIRECT_TESTS = ("tests/service/chain/test_direct.py", "tests/service/chain/test_direct_upkeep.py")
DIRECT_VERIFY_TESTS = ("tests/service/chain/test_direct_verify.py",)
FEE_TESTS = ("tests/service/chain/test_direct_fees.py",)
L1_FEE_TESTS = ("tests/service/chain/test_l1_fee.py",)
FINALITY = "src/faregate/service/finality.py"
FINALITY_TESTS = ("tests/service/test_finality.py",)
PUBLISHED_IDS = ("tests/service/test_published_ids.py",)
RESTORE_TESTS = ("tests/service/test_restore.py",)
RECONCILIATION = "src/faregate/service/reconciliation.py"
RECONCILIATION_TESTS = ("tests/service/test_reconciliation.py",)
TRANSFER_TESTS = ("tests/service/test_transfers.py",)
SIGNER_TESTS = ("tests/service/chain/test_direct_signers.py",)
INSTRUCTIONS_TESTS = ("tests/x402/test_instructions.py",)
REBUILT = ("tests/emulator/test_rebuilt_proofs.py",)
CONTROL_TESTS = ("tests/emulator/test_control_plane.py",)
PAY = "src/faregate/pay/"
MCP = "src/faregate/mcp/"
MCP_TESTS = ("tests/adapters/test_mcp.py",)
MCP_MISTAKES = ("tests/adapters/test_mcp_mistakes.py",)
MCP_STREAMS = ("tests/adapters/test_mcp_streams.py",)
MCP_TRANSPORTS = ("tests/adapters/test_mcp_transports.py",)

MUTANTS = (
    # A result leaves only on proof
    Mutant("release-while-settling", SETTLEMENT, "return (yield from schedule_retry(payment, StillSettling(reply)))",
           'return PaymentProven(outcome.result, "")'),
    Mutant("release-unproven", SETTLEMENT, 'return (yield from schedule_retry(payment, Unconfirmed("not proven")))',
           'return PaymentProven(outcome.result, "")'),
    Mutant("release-on-get", RECOVERY, "        case TransactionState.PENDING:\n",
           "        case TransactionState.SUCCEEDED:\n"
           '            return PaymentProven(outcome.result, "")\n'
           "        case TransactionState.PENDING:\n"),
    Mutant("no-header-needed", INTERPRET, 'return CompletionUnknown("succeeded without one PAYMENT-RESPONSE header")',
           'payment_response = ""'),
    Mutant("no-receipt-needed", INTERPRET, "    if not _has_receipt(result):\n", "    if False:\n"),
    Mutant("any-transaction", INTERPRET, 'if result.get("transaction_id") != transaction_id:', "if False:"),
    Mutant("202-succeeded-is-proof", INTERPRET, "if reply.status == 202:", "if False:"),
    Mutant("unknown-status-is-success", INTERPRET, 'case "succeeded":', 'case "succeeded" | "novel":'),
    Mutant("two-payment-responses", INTERPRET, "if len(values) != 1 or len(values[0]) > MAX_HEADER:", "if not values or len(values[0]) > MAX_HEADER:"),
    Mutant("redelivery-uncounted", ROW, "self.redelivered += 1", "pass"),
    Mutant("release-without-outcome", ROW, "if self.state not in (RowState.SUCCEEDED, RowState.STUCK) or not isinstance(\n"
           "            self.outcome, WorkSucceeded\n        ):",
           "if self.state not in (RowState.SUCCEEDED, RowState.STUCK, RowState.RUNNING):"),
    # Never run unpaid, never twice
    Mutant("run-without-proof", FLOW, 'yield from LogWarning("access granted a transaction without a proof", transaction_id)\n'
           "            return (yield from _refuse(request, responses.build_unavailable(502)))",
           "return (yield from _serve_free(request, revision, AccessFree()))"),
    Mutant("run-without-start", FLOW, "if not has_started:", "if False:"),
    Mutant("free-when-nothing-is-said", INTERPRET, 'decision.get("transaction_id", "") is None', 'decision.get("transaction_id") is None'),
    Mutant("claim-never-busy", ROW, "if self.is_leased(now, policy, owner_until):\n            return InProgress()", "if False:\n            return InProgress()"),
    Mutant("rerun-interrupted", ROW, "if self.state in (RowState.CLAIMED, RowState.OPEN):\n            return self._claim_unstarted",
           "if self.state in (RowState.CLAIMED, RowState.OPEN, RowState.RUNNING):\n            return self._claim_unstarted"),
    Mutant("any-request", ROW, "if fingerprint.request != self.request or (", "if ("),
    Mutant("transaction-not-unique", MEMORY, "return self._transactions.get(transaction_id, key) == key", "return True"),
    Mutant("no-fencing", ROW, "return self.fence == lease.fence and", "return"),
    Mutant("window-without-delivery", ROW, "policy.redelivery_window if delivered else policy.undelivered_retention",
           "policy.redelivery_window", UNFETCHED_TESTS),
    Mutant("fences-start-again", MEMORY, 'return Holder("this process", "", next(self._fences))', 'return Holder("this process", "", 1)'),
    Mutant("owed-rows-expire", ROW, "        self.expires_at = None\n", ""),
    # The outcome is recorded once, then reported
    Mutant("complete-before-decide", SETTLEMENT, "    if not (yield from record_outcome(payment, _remove_cookies(outcome))):\n"
           "        return LeaseLost()\n"
           "    if is_observed:\n        yield from EmitEvent(\n            Worked(",
           "    if is_observed:\n        yield from EmitEvent(\n            Worked("),
    Mutant("decide-twice", ROW, "self._is_held(lease, RowState.RUNNING, *", "self._is_held(lease, RowState.RUNNING, RowState.SUCCEEDED, *"),
    Mutant("charge-for-errors", FLOW, "if status in request.billable and", "if"),
    Mutant("charge-for-the-slash", FLOW, " and find_slash_redirect(result.response, request) is None", "", ("tests/attacks/test_redirects.py",)),
    # What may leave unpaid (`core.release`)
    Mutant("unbilled-statuses-leave", FLOW, "    if unpaid is not None:\n        return unpaid\n", "    return unpaid or responses.build_unsold(result.response)\n", RELEASE),
    Mutant("any-status-is-an-error", RELEASE_PY, "return 400 <= status <= 599", "return status >= 300", RELEASE),
    Mutant("prefixes-bill-logins", "src/faregate/core/models.py", "return BILLABLE if self.prefix_host is None else SUCCESSES", "return BILLABLE", RELEASE),
    Mutant("redirects-to-other-hosts", RELEASE_PY, ' and _fold_host(parts.netloc) in ("", _fold_host(host))', "", RELEASE_RULE),
    Mutant("redirects-to-other-schemes", RELEASE_PY, "    is_own = is_http and ", "    is_own = ", RELEASE_RULE),
    Mutant("redirects-with-a-fragment", RELEASE_PY, " and not parts.fragment", "", RELEASE_RULE),
    Mutant("redirects-to-any-path", RELEASE_PY, "    elif not is_page(unquote(location.path)):", "    elif False:", RELEASE_RULE),
    Mutant("redirects-with-any-query", RELEASE_PY, "    elif location.query and not _leads_back(", "    elif False and not _leads_back(", RELEASE_RULE),
    Mutant("redirects-with-any-parameter", RELEASE_PY, "    if name.lower() not in _RETURN_NAMES:", "    if False:", RELEASE_RULE),
    Mutant("redirects-with-two-parameters", RELEASE_PY, "for url in (value, unquote_plus(value)))", "for url in (value.partition(\"&\")[0],))", RELEASE_RULE),
    Mutant("redirects-back-to-any-host", RELEASE_PY, "backs = (_split_own(url, host) for", "backs = (urlsplit(url) for", RELEASE_RULE),
    Mutant("redirects-back-to-any-query", RELEASE_PY, '        and unquote(back.query) in ("", unquote(query))\n', "", RELEASE_RULE),
    Mutant("redirects-back-to-any-path", RELEASE_PY, "        and unquote(back.path) in (path, path.removeprefix(root_path))\n", "", RELEASE_RULE),
    Mutant("redirects-leave-as-they-are", RELEASE_PY, "    return responses.build_redirect(status, location.geturl())", "    return Response(status, headers)", RELEASE_RULE),
    Mutant("sold-errors-are-errors", RELEASE_PY, "    return any(status in (one.billable or BILLABLE) for offer in offers for one in offer.alternatives)", "    return False", RELEASE_RULE),
    Mutant("slash-redirects-with-a-signature", RELEASE_PY, " and unquote(location.query) == unquote(query)\n", "\n", RELEASE_RULE),
    Mutant("conditions-leave-with-the-result", RELEASE_PY, " and status not in _CONDITIONAL", "", RELEASE_RULE),
    Mutant("errors-name-files-to-send", RESPONSES, "set-cookie$|x-accel-|x-sendfile|x-lighttpd-send", "set-cookie$", RELEASE_RULE),
    Mutant("preconditions-reach-paid-handlers", "src/faregate/checkout/request.py", '    "if-match",\n', "", RANGES),
    Mutant("redirects-leave-the-host", RELEASE_PY, 'r"/(?![/\\\\])"', 'r"/"', RELEASE_RULE),
    Mutant("ranges-reach-paid-handlers", ASGI_RESPONDER, "drop_conditions(server_scope[\"method\"], self._raw_headers)", "list(self._raw_headers)", RANGES),
    Mutant("ranges-reach-paid-wsgi-handlers", WSGI, "            drop_conditions(environ)\n", "", RANGES),
    Mutant("ranges-reach-paid-views", DJANGO + "requests.py", "        drop_conditions(request.META)\n", "", RANGES),
    Mutant("parameters-are-pages", DISPATCH, "or match.path_parameters or match.prefix_offers", "or match.prefix_offers", RELEASE),
    Mutant("parameters-are-pages-in-flask", FLASK_PLACEMENT, "return not (parameters or inspect_rule(", "return not (inspect_rule(", RELEASE),
    Mutant("parameters-are-pages-in-django", DJANGO + "middleware.py", 'return f"/{route}" == path_info and not', "return not", RELEASE),
    Mutant("rewritten-paths-are-sold", "src/faregate/checkout/asgi_responder.py", '        if (path := scope.get("path", own_path)) != own_path:', "        if (path := own_path) != own_path:", RELEASE),
    Mutant("rewritten-paths-are-sold-by-any-router", CHECKOUT, "            if asked.isdisjoint(", "            if False and asked.isdisjoint(", LITESTAR_PATHS),
    Mutant("rewritten-paths-are-sold-in-flask", "src/faregate/flask/decorators.py", "        checkout.check_path(find_path(environ)[0])", "        pass", RELEASE),
    Mutant("caches-give-away-by-other-methods", DISPATCH, "found = self.resolve(asked, any_method=True)", "found = self.resolve(asked)", COPIES),
    Mutant("caches-give-away-by-methods-of-a-class", DISPATCH, "_pick_sold(endpoint, method), getattr(route", "pick_method(endpoint, method), getattr(route", ANSWERS),
    Mutant("caches-give-away-by-options", CHECKOUT, "            return responses.build_preflight(headers)\n", "            return Response(200, headers)\n", ANSWERS),
    Mutant("django-caches-give-away-by-other-methods", DJANGO + "middleware.py", 'return (method,) if is_answered else ("GET", "POST", "PUT", "PATCH", "DELETE")', "return (method,)", DJANGO_PLACEMENT),
    Mutant("flask-caches-give-away-by-other-methods", FLASK_PLACEMENT, "                if offers := inspect_rule(app, rule, other).offers:\n                    return rule.endpoint, offers\n", "                pass\n", ANSWERS),
    Mutant("copies-leave-under-another-key", CHECKOUT, "if not mistake and is_marked(headers):", "if False:", COPIES),
    Mutant("copies-leave-before-a-checkout", ASGI_RESPONDER, "is_copy(message.get(\"headers\", ())) or self._find_bypass(", "self._find_bypass(", COPIES),
    Mutant("copies-leave-under-another-spelling", DISPATCH, "for path in list_spellings(asked[\"path\"]):", "for path in ():", COPIES),
    Mutant("bodies-leave-by-free-addresses", CHECKOUT, "            if RESULTS.is_copy(whole):\n", "            if False:\n", BODY_COPIES),
    Mutant("bodies-leave-in-chunks", CHECKOUT, "            if RESULTS.has_length(len(sent)) and RESULTS.is_copy(bytes(sent)):\n", "            if False:\n", BODY_COPIES),
    Mutant("bodies-leave-compressed", "src/faregate/checkout/copies.py", "or not body.startswith(_STARTS)", "or True", (*BODY_COPIES, *COPIED_BODIES)),
    Mutant("bodies-that-were-there-before-are-copies", "src/faregate/checkout/copies.py", " and not is_own", "", (*BODY_COPIES, *COPIED_BODIES)),
    Mutant("stale-bodies-leave-flask", FLASK_MIDDLEWARE, "is_from_app = checked is not None and (status == checked or not is_error(checked))", "is_from_app = checked is not None", BODY_COPIES),
    Mutant("aborts-are-handlers-of-flask", FLASK_MIDDLEWARE, " and answered is not error:", ":", BODY_COPIES),
    Mutant("views-of-flask-give-copies", FLASK_MIDDLEWARE, "                checkout.called_handler = True\n        return ensure_sync(function)", "                pass\n        return ensure_sync(function)", BODY_COPIES),
    Mutant("stale-bodies-leave-django", DJANGO + "exceptions.py", "        checkout.called_handler = False  #", "        pass  #", BODY_COPIES),
    Mutant("stale-copies-leave-between-two-paywalls", CHECKOUT, "            if status != self._inside_status and not is_error(status):\n", "            if False:\n", BODY_COPIES),
    Mutant("results-of-an-inner-paywall-are-copies", CHECKOUT, "            self.called_handler = None\n        else:", "        else:", BODY_COPIES),
    Mutant("copies-of-bodies-leave", ASGI_RESPONDER, "if held.is_copy():", "if False:", COPIED_BODIES),
    Mutant("bodies-of-results-are-not-recorded", ASGI_RESPONDER, "                    RESULTS.add(body)\n", "                    pass\n", COPIED_BODIES),
    Mutant("changed-bodies-are-not-recorded", CHECKOUT, "                RESULTS.add(body)\n", "                pass\n", COPIED_BODIES),
    Mutant("copies-in-chunks-leave", "src/faregate/checkout/held_answer.py", "if not message.get(\"more_body\", False) or self._length > RESULTS.limit:", "if True:", COPIED_BODIES),
    Mutant("a-mount-counts-as-a-route", "src/faregate/routes/probes.py", "(endpoint, not self._leads_on(endpoint))", "(endpoint, True)", COPIED_BODIES),
    Mutant("middleware-of-a-route-counts-as-the-route", "src/faregate/routes/probes.py", "        if id(endpoint) in self._wrapped:\n", "        if False:\n", COPIED_BODIES),
    Mutant("feeds-are-held-to-their-end", "src/faregate/checkout/held_answer.py", "return not RESULTS.may_begin(self._beginning)", "return False", COPIED_BODIES),
    Mutant("beginnings-of-results-are-not-recorded", "src/faregate/checkout/copies.py", "        self._beginnings[hash(body[:_SHORTEST]) % _SIZE] = 1\n", "", COPIED_BODIES),
    Mutant("a-payment-of-an-old-price-is-held", "src/faregate/rules/operations/complete.py", "    if deps.sells_earlier:\n", "    if False:\n", ("tests/service/test_in_process.py",)),
    Mutant("flask-copies-are-not-marked", FLASK + "decorators.py", "        headers.add(*MARK)\n", "        pass\n", (*COPIES, *FLASK_CACHES)),
    Mutant("django-copies-are-not-marked", DJANGO + "decorators.py", "if may_be_result(answer.status_code, (sold,)):", "if False:", COPIES),
    Mutant("early-messages-leave", ASGI_RESPONDER, "if is_start or self._state is not _FREE:", "if is_start:", COPIES),
    Mutant("early-messages-leave-a-checkout", ASGI_RESPONDER, "checkout.allow_unpaid(200)", "checkout.allow_unpaid(500)", COPIES),
    Mutant("mcp-copies-leave-under-another-name", MCP + "calls.py", "not is_error(status) and sells_tools(self._server)", "False", MCP_MISTAKES),
    Mutant("exceptions-that-are-answered-are-charged", FLOW, "is_answer = result.has_raised and not is_error(status)", "is_answer = False", RAISED),
    Mutant("answers-of-starlette-are-charged", ASGI_RESPONDER, "        watch_handlers(scope, _begin_answer)\n", "", RAISED),
    Mutant("answers-below-a-prefix-are-charged", ASGI_RESPONDER, "                self._scope = WatchedScope(self._scope, _begin_answer)\n", "                pass\n", RAISED),
    Mutant("answers-of-the-server-error-middleware-are-charged", "src/faregate/checkout/exception_handlers.py", "        outermost.handler = _watch(handler, begin)\n", "        pass\n", RAISED),
    Mutant("answers-of-flask-are-charged", FLASK + "middleware.py", '("handle_user_exception", "handle_exception")', '("handle_exception",)', FLASK_RAISED),
    Mutant("late-answers-of-flask-are-charged", FLASK + "middleware.py", '("handle_user_exception", "handle_exception")', '("handle_user_exception",)', FLASK_RAISED),
    Mutant("answers-of-django-are-charged", DJANGO + "middleware.py", "is no result.\"\"\"\n        note_answer(request)\n", "is no result.\"\"\"\n", DJANGO_RAISED),
    Mutant("answers-of-rest-framework-are-charged", DJANGO + "responses.py", 'if getattr(response, "exception", None) is True:', "if False:", DJANGO_RAISED),
    Mutant("answers-of-django-ninja-are-charged", DJANGO + "middleware.py", "    watch_operations(view)\n", "", DJANGO_RAISED),
    Mutant("a-fan-out-is-one-work", ASGI_RESPONDER, "            self.checkout.begin_call(call)\n", "            pass\n", ONE_CALL),
    Mutant("a-fan-out-of-flask-is-one-work", FLASK + "decorators.py", "        checkout.begin_call(asked)\n", "", ONE_CALL),
    Mutant("twenty-works-for-one-payment", CHECKOUT, " and self._asks_left != 0:", ":", RELEASE),
    Mutant("late-prices-are-forgotten", CHECKOUT, "        self._move(State.DECIDED)\n        raise self.late\n", "        error, self.late = self.late, None\n        raise error\n", ("tests/attacks/test_late_prices.py",)),
    Mutant("late-prices-in-streams-go-on", WSGI, "        for chunk in chunks:\n            self._checkout.check_late()\n", "        for chunk in chunks:\n", ("tests/attacks/test_late_prices.py",)),
    Mutant("late-prices-in-django-streams-go-on", DJANGO + "responses.py", "    for chunk in content:\n        _check_late(checkout)\n", "    for chunk in content:\n", ("tests/attacks/test_late_prices.py",)),
    Mutant("contexts-leave-unpaid", ASGI_RESPONDER, "if response.released or self._context is None:", "if True:", RELEASE),
    Mutant("contexts-leave-unpaid-on-wsgi", WSGI, "work = WorkContext() if checkout.has_payment else None", "work = None", RELEASE),
    Mutant("contexts-leave-unpaid-in-django", DJANGO + "middleware.py", "work = WorkContext() if checkout.has_payment else None", "work = None", RELEASE),
    Mutant("offers-of-a-request-are-free", CHECKOUT, "mistake = self._describe_unpaid_offer()", 'mistake = ""', ("tests/attacks/test_late_prices.py",)),
    Mutant("late-unawaited-payments-are-free", CHECKOUT, "        if self.state is State.FREE:\n            self._cut(sold)\n", "", ("tests/fuzz/test_messages.py",)),
    Mutant("offers-of-a-response-are-free", CHECKOUT, "if self.late is None and len(self._offers_made) > self._offers_at_start:", "if False:", ("tests/fuzz/test_messages.py",)),
    Mutant("second-start-is-answered", CHECKOUT, "            self.late = error  # a response is on its way, and takes no other\n", "            pass\n", ("tests/fuzz/test_messages.py",)),
    Mutant("late-wsgi-is-answered", WSGI, "                raise self._checkout.late  # a response is on its way, and takes no other\n", "                pass\n", ("tests/fuzz/test_messages.py",)),
    Mutant("two-tasks-answer", ASGI_RESPONDER, "if self._is_sent:  # two tasks", "if False:  # two tasks", ("tests/fuzz/test_messages.py",)),
    Mutant("pending-cancellation-ends-a-completion", ASYNC_CHECKOUT, "            await raise_pending_cancellation()\n", "", ("tests/fuzz/test_messages.py",)),
    Mutant("unawaited-payments-are-free", CHECKOUT, "        self._expected = sold", "        pass", ("tests/attacks/test_late_prices.py",)),
    Mutant("many-headers-hide-the-environ", "src/faregate/checkout/snapshot.py", "if deep or is_own or len(value)", "if deep or len(value)", ("tests/attacks/test_state.py",)),
    Mutant("charge-for-exceptions", FLOW, '        yield from report_failure(payment, "handler_error")\n'
           "        raise",
           "        raise"),
    Mutant("no-retry", SETTLEMENT, "COMPLETE_PAUSES = (0.2, 0.8)", "COMPLETE_PAUSES = ()"),
    Mutant("forget-the-held", SETTLEMENT, "refused = CompletionRefused(completion)\n"
           "            return (yield from _handle_refusal(payment, refused, completion, repeated))",
           "refused = CompletionRefused(completion)\n"
           "            yield from close_unpaid(payment, code)\n"
           "            return refused"),
    Mutant("forget-the-failed", SETTLEMENT, "refused = Unconfirmed(CompletionRefused(completion).reason)\n"
           "            return (yield from _handle_refusal(payment, refused, completion, repeated))",
           "refused = Unconfirmed(CompletionRefused(completion).reason)\n"
           "            yield from close_unpaid(payment, code)\n"
           "            return refused"),
    Mutant("two-values-of-one-name", "src/faregate/merchant/json_text.py", "if len({name for name, _ in pairs}) < len(pairs):", "if False:"),
    Mutant("failed-with-a-hash-believed", INTERPRET, '("receipt", "payment_response", "transaction_hash", "settled_at", "settled_atomic")', '("receipt",)'),
    Mutant("answers-that-nobody-asked-for", TRANSPORTS + "exchange.py", "            self._keeps_alive = False  # what followed the reply\n", "            pass\n",
           ("tests/merchant/test_pools.py", "-k", "second_answer")),
    Mutant("late-answers-that-nobody-asked-for", TRANSPORTS + "exchange.py", "            # Bytes after a reply would be read as the reply to the next request.\n            self._keeps_alive = False\n", "            pass\n",
           ("tests/merchant/test_exchange.py", "tests/merchant/test_isolation.py")),
    Mutant("header-injection", TRANSPORTS + "exchange.py", "(text.isascii() and text.isprintable())", "text.isascii()",
           ("tests/merchant/test_exchange.py",)),
    Mutant("trailers-as-headers", TRANSPORTS + "exchange.py", "        if not self._has_head:\n            # The parser", "        if True:\n            # The parser",
           ("tests/merchant/test_exchange.py",)),
    Mutant("reply-cut-short", TRANSPORTS + "exchange.py", 'if any(name.lower() in ("content-length", "transfer-encoding") for name, _ in self._headers):', "if False:",
           ("tests/merchant/test_exchange.py",)),
    Mutant("reuse-cancelled-connection", TRANSPORTS + "http1.py", "            await connection.aclose()\n            raise", "            raise",
           ("tests/merchant/test_cancellation.py", "-k", "right_after")),
    # Calls under way are bounded
    Mutant("unlimited-calls", TRANSPORTS + "limits.py", "            if self._free:", "            if True:", LIMITS),
    Mutant("unlimited-queue", TRANSPORTS + "limits.py", "if len(self._waiting) < self._places:", "if True:", LIMITS),
    Mutant("client-gives-no-priority", "src/faregate/merchant/sender.py", "return make_sync(choice, has_priority=finishes_payment)", "return make_sync(choice)", LIMITS),
    Mutant("async-client-gives-no-priority", "src/faregate/merchant/sender.py", "return make_async(choice, finishes_payment)", "return make_async(choice)", LIMITS),
    Mutant("completions-wait-for-strangers", TRANSPORTS + "limits.py", "return self._prior if self._has_priority(url) else self._others", "return self._others", LIMITS),
    Mutant("slot-lost-in-the-queue", TRANSPORTS + "limits.py", "                return\n        self.leave()\n", "                return\n", LIMITS),
    Mutant("sent-too-late", TRANSPORTS + "limits.py", "                waiter.wait(seconds * WAIT_SHARE)", "                waiter.wait(seconds)", LIMITS),
    Mutant("deadline-starts-after-the-queue", TRANSPORTS + "limits.py", "return await self._inner.asend(method, url, headers, body, moment - monotonic())",
           "return await self._inner.asend(method, url, headers, body, seconds)", LIMITS),
    # What was learned is remembered; what cannot be ended is kept
    Mutant("an-id-is-lost-with-its-lease", ROW, "        self._bind_transaction(RowState.WAITING if waits else RowState.OPEN, transaction_id, revision_id)\n",
           "        return False\n"),
    Mutant("settles-without-us-and-is-failed", ROW, "RowState.WAITING if waits else RowState.OPEN", "RowState.OPEN"),
    Mutant("told-once-more-and-kept", ROW, "if not (is_known or self.may_start(lease, transaction_id)):",
           "if not self.may_start(lease, transaction_id):"),
    Mutant("failed-into-a-settlement", RECOVERY, "        case TransactionState.PENDING | TransactionState.CONTRADICTORY:\n"
           '            return (yield from schedule_retry(payment, Unconfirmed("settling")))\n',
           ""),
    Mutant("completed-by-others-and-stuck", RECOVERY, "            yield from LogWarning(\n"
           '                "a payment settled although its work was reported as failed", payment.transaction_id\n'
           "            )\n"
           "            return (yield from close_paid(payment, receipt, outcome.code))\n",
           "            return (yield from complete_failure(payment, outcome, repeated=repeated))\n"),
    Mutant("a-key-that-may-not-look-never-completes", RECOVERY, "    except Forbidden:\n        return TransactionState.UNRECOGNIZED\n", ""),
    Mutant("reported-without-a-look", RECOVERY, "return (yield from _recover_failure(payment, interrupted, repeated=False))",
           "return (yield from complete_failure(payment, interrupted, repeated=False))"),
    Mutant("an-unnamed-status-is-settling", INTERPRET, "            return TransactionState.UNRECOGNIZED", "            return TransactionState.PENDING"),
    Mutant("not-completed-while-unrecognized", RECOVERY, "        case TransactionState.PENDING:\n",
           "        case TransactionState.PENDING | TransactionState.UNRECOGNIZED:\n"),
    Mutant("overtaken-and-told-used", FLOW, "build_unconfirmed(payment.transaction_id)))\n    if not ours:\n",
           "build_unconfirmed(payment.transaction_id)))\n    if False:\n"),
    Mutant("a-lost-start-goes-to-the-fallback", FLOW, "        # A journal has the transaction already,",
           "        yield from WriteFallback(payment.transaction_id, payment.revision_id)\n        # A journal has the transaction already,"),
    Mutant("an-id-is-lost-with-its-row", PROCEDURES, "if row is None or row.transaction_id != transaction_id:", "if False:", STORE_TESTS),
    Mutant("an-id-is-lost-in-memory", MEMORY, "if row is None or row.transaction_id != transaction_id:", "if False:"),
    Mutant("a-claim-of-two-is-forgotten", ROW, "and self.generation == 1", ""),
    Mutant("one-row-for-two-transactions", ROW, 'fits = self.transaction_id in ("", transaction_id)', "fits = True"),
    Mutant("work-sold-that-never-began", ROW, "*((RowState.OPEN,) if failed else ())", "RowState.OPEN"),
    Mutant("no-last-resort", FLOW, "        yield from WriteFallback(payment.transaction_id, payment.revision_id)\n"
           "        return (",
           "        return ("),
    Mutant("no-last-resort-for-waiting", FLOW, '{RecordPending.action}: {error}", payment.transaction_id\n        )\n'
           "        yield from WriteFallback(payment.transaction_id, payment.revision_id)",
           '{RecordPending.action}: {error}", payment.transaction_id\n        )'),
    Mutant("last-resort-in-the-log-alone", OBSERVERS, "            _append(self._file, line)\n", "            pass\n"),
    Mutant("last-resort-without-its-revision", OBSERVERS, '{"transaction_id": transaction_id, "revision_id": revision_id}', '{"transaction_id": transaction_id}'),
    Mutant("last-resort-not-on-the-disk", OBSERVERS, "        os.fsync(file)\n", ""),
    Mutant("sockets-read-a-path-two-ways", PATH_RULES, "self.refused or self.ambiguous or self.offer",
           "self.refused or self.offer", ("tests/adapters/test_prefixes.py",)),
    Mutant("a-format-after-a-prefix-is-free", PATH_RULES, """ or path.startswith(f"{prefix}.")""", "", ("tests/adapters/test_prefixes.py",)),
    Mutant("shortest-prefix-names-the-price", PATH_RULES, "max(found, key=len", "min(found, key=len", ("tests/adapters/test_prefixes.py",)),
    Mutant("flow-left-open-by-a-signal", "src/faregate/core/driver.py", "keep each other alive.\n"
           "        del result, value\n"
           "        if not paused:\n"
           "            flow.close()",
           "keep each other alive.\n"
           "        del result, value"),
    Mutant("listeners-decide", OBSERVERS, "        except Exception as error:\n            log(\"events\", logging.ERROR, \"on_event", "        except TypeError as error:\n            log(\"events\", logging.ERROR, \"on_event"),
    Mutant("observers-decide", OBSERVERS, "            except Exception as error:\n                failed =", "            except TypeError as error:\n                failed ="),
    Mutant("tracing-decides", "src/faregate/observers.py", "        return action()\n    except Exception as error:\n", "        return action()\n    except TypeError as error:\n", ("tests/telemetry/test_telemetry.py",)),
    Mutant("revenue-counted-by-both", SETTLEMENT, "                if record is SettlementWrite.FIRST:\n", "                if True:\n"),
    Mutant("an-end-told-by-both", SETTLEMENT, "    if (yield from write(step, True, payment.transaction_id)):\n        yield from EmitEvent(Failed(", "    yield from write(step, True, payment.transaction_id)\n    if True:\n        yield from EmitEvent(Failed("),
    Mutant("a-second-settlement-is-the-first", PROCEDURES, "            was_settled = row.was_settled\n", "", ("tests/journals/test_leases.py",)),
    Mutant("a-sale-counted-after-its-row", PROCEDURES, "            return SettlementWrite.REPEATED\n", "            return SettlementWrite.FIRST\n", ("tests/journals/test_contract.py",)),
    Mutant("a-sale-counted-after-its-row-in-memory", MEMORY, "                return SettlementWrite.REPEATED\n", "                return SettlementWrite.FIRST\n", ("tests/journals/test_contract.py",)),
    Mutant("a-sale-counted-for-a-newer-row", ROW, "if was_settled or not (changed or self.state in FINAL):", "if was_settled:", ("tests/journals/test_contract.py",)),
    Mutant("a-busy-claim-changes-the-row", ROW, "            return InProgress()\n", "            self.owner = holder.owner + \"!\"\n            return InProgress()\n", ("tests/journals/test_row_rules.py",)),
    Mutant("a-receipt-decides", "src/faregate/core/sales.py", "    except Exception:\n", "    except KeyError:\n"),
    Mutant("logging-decides", "src/faregate/logs.py", "    except Exception as broken:\n", "    except TypeError as broken:\n"),
    Mutant("notes-log-directly", "src/faregate/merchant/backend.py", "        log(\n            \"sale\",\n            logging.WARNING,\n            \"%s%s%s\",\n            message,\n            advice,\n            about,\n            fields=", "        logging.getLogger(\"faregate\").log(\n            logging.WARNING,\n            \"%s%s%s\",\n            message,\n            advice,\n            about,\n            extra="),
    Mutant("async-listeners-are-accepted", OBSERVERS, "        _check_listener(on_event)\n", ""),
    Mutant("stuck-for-the-sweep", ROW, "owed = self.expires_at is None and self.state is not RowState.STUCK", "owed = self.expires_at is None"),
    Mutant("leased-for-the-work-while-told", ROW, "        self.lease_until, self.touched_at = now + policy.completion_lease, now\n        return True", "        return True",
           ("tests/journals/test_open_payments.py",)),
    Mutant("swept-before-its-payer", ROW, "            self.due_at = now + policy.claim_lease\n", "", ("tests/journals/test_open_payments.py",)),
    Mutant("starts-what-runs-already", ROW, "            return False\n        self._bind_transaction(RowState.WAITING if waits", "            return True\n        self._bind_transaction(RowState.WAITING if waits", CORE[1:]),
    Mutant("watched-and-forgotten-for-another", ROW, "is_known = self.transaction_id == transaction_id and ", "is_known = ", CORE[1:]),
    Mutant("held-so-often-and-no-more", ROW, "self.key[self.holds_so_far % len(self.key)]", "self.key[self.holds_so_far]", ("tests/journals/test_open_payments.py",)),
    Mutant("watched-by-two-rows", MEMORY, "            if not self._is_free(transaction_id, lease.key):\n                self._drop(lease, row)\n                return\n", "", CORE[1:]),
    Mutant("over-and-owed-again", MEMORY, "        if row.expires_at is None:\n            self._owed", "        if True:\n            self._owed", CORE[1:]),
    Mutant("written-under-a-sweep", OPEN_PAYMENTS, '            "lease_until": now + policy.completion_lease,\n            "stamp": make_id(),\n', '            "lease_until": now + policy.completion_lease,\n', STORE_TESTS),
    Mutant("people-take-what-is-settled", OPEN_PAYMENTS, '        if record is None or record["expires_at"] is not None:\n            return None\n', "        if record is None:\n            return None\n", STORE_TESTS),
    Mutant("started-without-a-flush", PROCEDURES, "            row, changed = yield from self._change(lease, change, durable=True)", "            row, changed = yield from self._change(lease, change)", STORE_TESTS),
    Mutant("decided-without-a-flush", PROCEDURES, "            lease, lambda row: row.record_outcome(lease, outcome, now, policy), durable=True\n", "            lease, lambda row: row.record_outcome(lease, outcome, now, policy)\n", STORE_TESTS),
    Mutant("earlier-rows-do-not-open", ENCRYPTION, "info=f\"faregate journal 1 {use}\".encode()", "info=use.encode()", STORE_TESTS),
    Mutant("no-horizon", ROW, "now >= self.since + policy.max_age", "False"),
    Mutant("first-refusal-is-the-last", SETTLEMENT, "if repeated and rejection.is_about_the_transaction:", "if rejection.is_about_the_transaction:"),
    Mutant("asked-for-ever", SETTLEMENT, "if repeated and rejection.is_about_the_transaction:", "if False:"),
    Mutant("refused-for-now-is-left-to-people", SETTLEMENT, "if repeated and rejection.is_about_the_transaction:", "if repeated:"),
    Mutant("not-charged-although-unsure", FLOW, "        if isinstance(settlement, PaymentFailed):\n"
           "            return responses.build_work_failed",
           "        if True:\n"
           "            return responses.build_work_failed"),
    Mutant("402-for-a-decision-that-was-lost", SETTLEMENT, "if not (yield from record_outcome(payment, WorkFailed(code))):\n"
           "        return LeaseLost()",
           "if not (yield from record_outcome(payment, WorkFailed(code))):\n"
           "        return PaymentFailed(code)"),
    Mutant("receipt-before-it-is-paid", INTERPRET, ' or fields.get("receipt") is not None\n', "\n"),
    Mutant("undelivered-is-spent", ROW, "if not self.delivered:", "if not self.delivered and policy.redeliveries:"),
    Mutant("people-take-what-is-leased", OPEN_PAYMENTS, "if row.is_leased(now, self._policy, (yield from self._rows.get_owner_until(row, now))):\n            return None", "if False:\n            return None", STORE_TESTS),
    # A payment buys the offer that its request chose
    Mutant("choice-is-not-bound", FLOW, "    if request.is_chosen:\n", "    if False:\n", CHOICES),
    Mutant("every-choice-is-bound-alike", FLOW, 'named = f"{named} as {request.offer.sells}"', 'named = f"{named} as chosen"', CHOICES),
    Mutant("chosen-offer-is-not-marked", CHECKOUT, "is_chosen, offer = sold is not offer,", "is_chosen, offer = False,", CHOICES),
    Mutant("any-choice-is-the-first", CHOICE, "if isinstance(chosen, str) and offer.sells == chosen:", "if True:", CHOICES),
    Mutant("foreign-choice-is-the-cheapest", CHOICE, "    error = chosen if isinstance(chosen, Exception) else None\n", "    return sold.among[0]\n", CHOICES),
    Mutant("foreign-choice-is-not-refused", CHECKOUT, '            self.refuse(500, "offer_not_chosen", NOT_CHOSEN_PAID if self.has_payment else NOT_CHOSEN)\n', "", CHOICES),
    Mutant("payment-without-a-choice-was-not-charged", CHECKOUT, "NOT_CHOSEN_PAID if self.has_payment else NOT_CHOSEN", "NOT_CHOSEN", CHOICES),
    Mutant("what-payers-send-is-logged", CHOICE, 'return f"a str of {len(chosen)} characters that is not in among"', "return repr(chosen)", CHOICES),
    Mutant("tool-chooses-by-a-misspelt-argument", MCP + "decorators.py", "if not is_given and parameter.kind not in _VARIADIC:", "if False:", CHOICES),
    Mutant("failed-tool-is-billable-by-choice", MCP + "decorators.py", "any(offer.billable is not None for offer in sold.alternatives)", "False", CHOICES),
    Mutant("choice-of-nothing-named", "src/faregate/offers.py", "if isinstance(among, str) or not isinstance(among, Sequence) or not among:", "if False:", CHOICES),
    # A result goes to the client that paid for it
    Mutant("handed-to-another-client", ROW, "if not self._is_bound_to(fingerprint, STABLE):", "if False:", CLIENTS),
    Mutant("handed-to-an-older-cookie", ROW, "replay is not ReplayPolicy.SAME_PROOF and not self._is_bound_to(fingerprint, EXACT)", "False", CLIENTS),
    Mutant("replayed-without-credentials", ROW, "elif replay is ReplayPolicy.SAME_CLIENT and not self._has_secret_credentials:", "elif False:", CLIENTS),
    Mutant("replayed-although-never", ROW, "elif replay is ReplayPolicy.NEVER or self", "elif self", CLIENTS),
    Mutant("never-replay-is-ignored", FLOW, "replay if request.offer.replay else ReplayPolicy.NEVER", "replay", CLIENTS),
    Mutant("replayed-where-proofs-are-public", FLOW, "    if predictability is Predictability.PREDICTABLE:\n        return", "    if False:\n        return", CLIENTS),
    Mutant("claimed-as-secret-at-once", FLOW, "_build_claim(request, proof, ReplayPolicy.SAME_CLIENT)",
           "_build_claim(request, proof, ReplayPolicy.SAME_PROOF)", CLIENTS),
    Mutant("one-402-tells-whether-it-is-predictable", FLOW, "len(instructions) == 2 and are_unpredictable(*instructions)", "len(instructions) == 2", CLIENTS),
    Mutant("cookies-are-stored", SETTLEMENT, "record_outcome(payment, _remove_cookies(outcome))", "record_outcome(payment, outcome)", CLIENTS),
    Mutant("authorization-is-no-credential", REQUEST_HEADERS, '("authorization", "idempotency-key")', '("idempotency-key",)', CLIENTS),
    Mutant("keys-of-requests-are-no-credentials", REQUEST_HEADERS, '("authorization", "idempotency-key")', '("authorization",)', CLIENTS),
    Mutant("cookies-are-no-credentials", REQUEST_HEADERS, 'elif name == "cookie":', "elif False:", CLIENTS),
    Mutant("a-renewed-credential-binds-to-nobody", REQUEST_HEADERS, '        yield f"{STABLE}{kind} {stable}"\n', "", CLIENTS),
    Mutant("another-body-gets-the-result", ROW, "fingerprint.body and self.body and fingerprint.body != self.body", "False",
           ("tests/journals/test_same_client.py", "tests/journals/test_contract.py", "tests/core")),
    Mutant("a-guess-is-a-credential", ROW, "any(one[0] != PREDICTABLE for one in self.client.split())", "bool(self.client)", CLIENTS),
    Mutant("a-setting-is-a-secret", REQUEST_HEADERS, 'kind == "authorization" or _SECRET.search(value)', "True", CLIENTS),
    Mutant("delivered-by-two", ROW, "            self.fence = lease.fence\n", "", LEASES),
    Mutant("succeeded-without-a-receipt-waits-for-ever", RECOVERY, "            # Waiting for a clearer GET could last for ever. It looks paid, so a refusal does not count.\n"
           "            return (yield from complete_success(payment, outcome, repeated=False, awaited=awaited))\n",
           "            return (yield from schedule_retry(payment, StillSettling()))\n"),
    # Leases end with their owner, and not before
    Mutant("a-silent-owner-keeps-its-row", ROW, "return max(self.touched_at + policy.owner_lease, owner_until) > now", "return True", LEASES),
    Mutant("a-living-owner-loses-its-row", ROW, "max(self.touched_at + policy.owner_lease, owner_until) > now", "self.touched_at + policy.owner_lease > now", LEASES),
    Mutant("a-dead-owner-keeps-its-row", ROW, " or owner_until == IS_DEAD", "", OWNER_LOCKS),
    Mutant("a-sweep-waits-for-a-dead-owner", OPEN_PAYMENTS, "return dead, tuple(owner for owner in lives if owner not in dead)", "return (), tuple(owner for owner in lives if owner not in dead)", OWNER_LOCKS),
    Mutant("a-stopped-owner-loses-its-row", OWNER_LOCK, "return LIVES if lives else IS_DEAD", "return 0.0 if lives else IS_DEAD", OWNER_LOCKS),
    Mutant("a-sweep-robs-a-stopped-owner", OPEN_PAYMENTS, "return dead, tuple(owner for owner in lives if owner not in dead)", "return dead, ()", OWNER_LOCKS),
    Mutant("a-lock-of-another-file-is-trusted", OWNER_LOCK, "if start == kind + place else None", "if start[:1] == kind else None", OWNER_LOCKS),
    Mutant("a-lock-of-another-kernel-is-trusted", FILE_LOCKS, 'place = f"{_get_boot_id()} {', 'place = f"{', OWNER_LOCKS),
    Mutant("a-lock-that-was-dropped-is-not-taken-again", FILE_LOCKS, "                if number in file.held:\n                    _lock(file, number)\n", "                pass\n", OWNER_LOCKS),
    Mutant("a-lock-behind-a-pooler-is-trusted", SESSION_LOCKS, "pid != session.backend_pid or ", "", OWNER_LOCKS),
    Mutant("a-lock-behind-a-proxy-is-trusted", SESSION_LOCKS, " or not _is_direct(session.fileno(), address, port)", "", OWNER_LOCKS),
    Mutant("a-lock-that-nobody-has-is-trusted", SESSION_LOCKS, "if not is_taken or held != 1:", "if False:", OWNER_LOCKS),
    Mutant("a-lost-session-is-a-death", SESSION_LOCKS, "            time.sleep(GRACE)\n", "", OWNER_LOCKS),
    Mutant("a-child-keeps-the-session-of-its-parent", SESSION_LOCKS, "os.dup2(nowhere, session.fileno(), inheritable=False)", "pass", OWNER_LOCKS),
    Mutant("a-row-without-an-owner-is-leased", ROW, "if not self.owner or self.lease_until <= now", "if self.lease_until <= now", OWNER_LOCKS),
    Mutant("leases-are-not-renewed", HEARTBEAT, "                renew(owner)\n", "                pass\n", LEASES),
    Mutant("a-child-is-its-parent", HEARTBEAT, "    for heartbeat in list(_heartbeats):\n        heartbeat.reset()\n", "    return\n", LEASES),
    # Rows of others, and rows that no key opens
    Mutant("begun-by-another-seller-and-completed", RECOVERY, "if payment.foreign and not (yield from _is_known_to_service(payment)):", "if False:"),
    Mutant("no-row-is-foreign", ROW, "foreign=self.seller != seller", "foreign=False", LEASES),
    Mutant("402-while-rows-cannot-be-found", FLOW, "    if may_be_missed:\n        return (yield from _refuse(request, responses.build_unconfirmed(None)", "    if False:\n        return (yield from _refuse(request, responses.build_unconfirmed(None)"),
    Mutant("used-while-rows-cannot-be-found", FLOW, "    if may_be_missed:\n"
           "        return (yield from _refuse(request, responses.build_unconfirmed(payment.",
           "    if False:\n"
           "        return (yield from _refuse(request, responses.build_unconfirmed(payment."),
    Mutant("unreadable-row-locks-its-payer-out", OPEN_PAYMENTS, '            "owner": "",\n            "lease_until": now,\n', '            "owner": "",\n', LEASES),
    Mutant("a-slash-is-another-service", ADDRESS, 'f"{environment} {normalize_address(base_url)}"', 'f"{environment} {base_url}"', ADDRESSES),
    # What sells now
    Mutant("a-superseded-revision-is-not-replaced", FLOW, "if not isinstance(access, RevisionRejected):", "if isinstance(access, RevisionRejected) or True:", REVISIONS),
    Mutant("a-failed-refresh-refuses-payers", FLOW, "known = yield from _get_known_revision(request)", "known = None", REVISIONS),
    Mutant("an-older-revision-sells", INTERPRET, "number >= newest.get(key, 0)", "number <= newest.get(key, number)", TOLERANCE),
    # Answers that are not the service's own, or that cannot be read
    Mutant("a-page-of-a-proxy-is-final", "src/faregate/core/results.py", "return self.is_readable and self.status in", "return self.status in"),
    Mutant("unreadable-and-never-completed", RECOVERY, 'cannot be read: {error}", payment.transaction_id)\n'
           "        return TransactionState.UNRECOGNIZED",
           'cannot be read: {error}", payment.transaction_id)\n'
           "        return TransactionState.UNAVAILABLE"),
    # No fresh 402 while the fate is open
    Mutant("402-for-a-claim-that-was-lost", FLOW, "if not ours or isinstance(use, InProgress):", "if isinstance(use, InProgress):"),
    Mutant("402-for-an-open-payment-in-another-encoding", FLOW, "if not ours or isinstance(use, InProgress):", "if not ours:"),
    Mutant("402-for-a-used-payment-in-another-encoding", FLOW, "    if use is not None:\n", "    if False:\n"),
    Mutant("an-encoding-is-forgotten-in-memory", MEMORY, "            self._note_authorization(row)\n", "", PAID_BEFORE),
    Mutant("a-failed-payment-is-open-in-another-encoding", ROW, "    if state is RowState.UNPAID:\n        return None\n", "", PAID_BEFORE),
    Mutant("an-encoding-is-found-under-one-key", ENCRYPTION, "[_hash_authorization(key, named) for key in self._keys.values()]", "[_hash_authorization(self._newest, named)]", PAID_BEFORE),
    Mutant("paid-for-and-sold-again-after-ten-minutes", ROW, "or self.has_expired_result(now):", "and not self.has_expired_result(now):", PAID_BEFORE),
    Mutant("forgotten-while-it-could-be-sent", ROW, "max(validity, _get_retention(policy))", "_get_retention(policy)", PAID_BEFORE),
    Mutant("forgotten-with-its-result", ROW, "        self.expires_at = self.forget_at\n        self.outcome", "        self.outcome", PAID_BEFORE),
    Mutant("a-late-delivery-is-forgotten-early", ROW, "self.forget_at = max(self.forget_at or now, now + _get_retention(policy))", "pass", PAID_BEFORE),
    Mutant("dropped-and-brought-back", "src/faregate/journals/sql.py", "stamp = -1 - stamp, ", "", PAID_BEFORE),
    Mutant("dropped-without-a-trace-in-redis", f"{REDIS}journal.lua", "stamp = '-1' .. row.stamp, ", "", PAID_BEFORE),
    Mutant("a-full-journal-forgets-nothing", "src/faregate/journals/quota.py", "        return forgotten > 0\n", "        return False\n", PAID_BEFORE),
    Mutant("unfetched-and-sold-again", "src/faregate/journals/open_payments.py", "self._policy.paid_retention\n", "0.0\n", PAID_BEFORE),
    Mutant("402-for-a-transaction-that-was-learned", PROCEDURES, "                return unknown\n", "                return True\n", STORE_TESTS),
    Mutant("402-for-a-transaction-learned-in-memory", MEMORY, "and row.state is RowState.CLAIMED", "", ("tests/core", "tests/journals/test_open_payments.py")),
    Mutant("402-while-unknown", FLOW, "            return (yield from _answer_settlement(request, payment, settlement))\n"
           "        case Replayable(",
           "            return (yield from _ask_for_new_payment(request, payment.transaction_id))\n"
           "        case Replayable("),
    Mutant("402-after-paid-without-result", RECOVERY, '            return (yield from close_paid(payment, receipt, "not_started"))\n'
           "        case TransactionState.AUTHORIZED:",
           '            yield from close_paid(payment, receipt, "not_started")\n'
           '            return PaymentFailed("payment_failed")\n'
           "        case TransactionState.AUTHORIZED:"),
    Mutant("failed-with-receipt-believed", INTERPRET, "    if _looks_paid(result) or", "    if"),
    Mutant("conflict-is-not-final", "src/faregate/core/results.py", "(400, 404, 409, 410, 422)", "(400, 404, 410, 422)"),
    Mutant("relay-402-of-complete", INTERPRET, "if not 400 <= reply.status < 600 or reply.status == 402:", "if not 400 <= reply.status < 600:",
           CORE),
    Mutant("claim-kept-after-402", FLOW, "            yield from write(AbandonClaim(lease), False)\n"
           "            return (yield from _refuse_access(request, access))",
           "            return (yield from _refuse_access(request, access))"),
    # What travels
    Mutant("held-and-not-told-when", RESPONSES, "retry_after or DEFAULT_RETRY_AFTER)\n"
           "\n"
           "\n"
           "def build_in_progress",
           "retry_after)\n"
           "\n"
           "\n"
           "def build_in_progress"),
    Mutant("not-taken-and-not-told-so", FLOW, "anew = responses.build_new_payment_required(access.response, transaction_id)", "anew = responses.build_payment_required(access.response)"),
    Mutant("handler-forges-payment-response", RESPONSES, '        "payment-response",\n', ""),
    Mutant("handler-forges-transaction", RESPONSES, '        TRANSACTION.lower(),\n', ""),
    Mutant("shared-caches", RESPONSES, 'NO_STORE: Header = ("Cache-Control", "private, no-store")',
           'NO_STORE: Header = ("Cache-Control", "public")'),
    Mutant("caching-header-of-a-new-network", RESPONSES, "return _Kind.OTHER if _CACHING_NAME.search(name) is None else _Kind.CACHING",
           "return _Kind.OTHER"),
    Mutant("caching-directive-in-an-unknown-header", RESPONSES, 'return "=" in value and _CACHING_VALUE.search(value) is not None', "return False"),
    Mutant("unpayable-402", INTERPRET, "case 402 if _find_header(reply, INSTRUCTIONS) is not None:", "case 402:"),
    # The middleware
    Mutant("pass-before-paid", ASGI_RESPONDER, "        elif self.checkout.state not in PASSING:\n"
           "            return self._take(message)\n        elif not self._may_pass(message) or",
           "        elif self.checkout.state not in (*PASSING, State.AUTHORIZED):\n            return self._take(message)\n"
           "        elif (self.checkout.state is not State.AUTHORIZED and not self._may_pass(message)) or", ADAPTER_TESTS),
    Mutant("result-before-a-checkout-passes", ASGI_RESPONDER, "is_copy(message.get(\"headers\", ())) or self._find_bypass(", "False and self._find_bypass(", ANSWERS),
    Mutant("second-start-is-not-judged", ASGI_RESPONDER, "        if self._state is _CLOSED or self._offers_made:\n            return False\n",
           "        if self._state is not State.NEW:\n            return self._state is _FREE\n", ("tests/checkout/test_asgi_responder.py",)),
    Mutant("verdict-not-enforced", ASGI_RESPONDER, "        elif self.checkout.state not in PASSING:\n"
           "            return self._take(message)\n        elif not self._may_pass(message) or",
           "        elif self.checkout.state not in (*PASSING, State.DECIDED):\n            return self._take(message)\n"
           "        elif (self.checkout.state is not State.DECIDED and not self._may_pass(message)) or", ADAPTER_TESTS),
    Mutant("options-runs-the-work", CHECKOUT, 'if self.state is not State.DECIDED and self.incoming.request.method == "OPTIONS":', "if False:", ADAPTER_TESTS),
    Mutant("no-size-limit", BUFFER, "if self._size > self._limit:", "if False:", ADAPTER_TESTS),
    Mutant("first-chunk-completes", ASGI_RESPONDER, '            if not message.get("more_body", False):\n'
           "                await self._complete()",
           "            await self._complete()", ADAPTER_TESTS),
    Mutant("late-redirect-is-sold", WSGI, "            checkout.check_deadline()\n"
           "        answer = checkout.complete()",
           "        answer = checkout.complete()", WSGI_TESTS),
    Mutant("answer-to-a-request-that-is-over", ASGI, "            responder.leave()\n", "            pass\n",
           ("tests/adapters/test_starlette_disconnects.py::test_a_server_that_cancels_the_request_does_not_cancel_the_sale",)),
    Mutant("disconnect-is-heard", ASGI_RESPONDER, 'if message["type"] != "http.request" and is_work_running and self._is_body_read:',
           "if False:", ADAPTER_TESTS),
    # The body of a request
    Mutant("body-is-read-by-two", ASGI_RESPONDER, "        return self._receive_lock\n", "        return anyio.Lock()\n", BODIES),
    Mutant("half-a-body-runs", CHECKOUT, 'self.refuse(400, "incomplete_body", "The request body ended early. Send the whole body.")', "pass", BODIES),
    Mutant("wsgi-body-is-not-compared", WSGI, "            read_body=read_body,\n", "", BODIES),
    Mutant("wsgi-body-is-always-read", CHECKOUT, "is_due = self.has_payment and not self._body_digest",
           "is_due = not self._body_digest", BODIES),
    Mutant("wsgi-body-is-lost", WSGI, 'environ["wsgi.input"] = BytesIO(body)', "pass", BODIES),
    Mutant("django-body-is-lost", "src/faregate/django/requests.py", "attributes.update(_stream=stream, _read_started=False)", "pass", BODIES),
    Mutant("http-2-body-is-none", "src/faregate/checkout/wsgi_environ.py", '.startswith(("HTTP/0", "HTTP/1"))', ".startswith((\"HTTP/\",))", BODIES),
    Mutant("cancel-is-heard", ASGI, "await run_shielded(partial(responder.run, app))", "await responder.run(app)", ADAPTER_TESTS),
    Mutant("no-time-limit", ASYNC_CHECKOUT, "self.cancel_scope.deadline = get_time() + self._work.seconds",
           "pass", ("tests/adapters/test_handler_exits.py::test_work_that_is_cut_off_has_failed_whatever_it_makes_of_that",)),
    Mutant("late-work-is-sold", FLOW, "if result.duration_ms > request.work_seconds * 1000:", "if False:"),
    Mutant("refused-prefix-is-free", CHECKOUT, "            if self.path_match.refused:\n", "            if False:\n", REFUSED),
    Mutant("refused-handler-runs", ASGI, "elif checkout.path_match.refused and not self._resolver.is_sold(scope):", "elif False:", REFUSED),
    Mutant("sold-inside-and-withheld", ASGI_RESPONDER, "            outer.checkout.mark_sold_inside()\n", "            pass\n", REFUSED),
    Mutant("target-that-is-no-path", PATH_RULES, " or not _is_path(path, root):", ":", ("tests/adapters/test_prefixes.py",)),
    Mutant("sold-for-a-target-that-is-no-path", CHECKOUT, "if not self.path_match.is_path:", "if False:", ("tests/adapters/test_prefixes.py",)),
    Mutant("state-is-not-restored", ASGI_RESPONDER, "return take_snapshot(self._server_scope, scope, self._shared).restore", "return lambda: None", STATE),
    Mutant("state-is-not-taken", "src/faregate/checkout/asgi_scope.py", "snapshot.take_items(one, _PROTOCOL_KEYS)", "pass", STATE),
    Mutant("state-of-lists-is-not-taken", SNAPSHOT, "        self.take_all(held.values() if issubclass(kind, dict) else held, deep=deep)\n", "", STATE),
    Mutant("attributes-are-not-taken", SNAPSHOT, "            self._take_contents(namespace, deep)\n", "            pass\n", STATE),
    Mutant("cookies-of-the-unsold", RESPONSES, "kept = tuple(pair for pair in _filter_headers(response.headers) if not _OF_RESULTS.match(pair[0]))",
           "kept = _filter_headers(response.headers)", STATE),
    Mutant("answered-by-another", ASGI, "        if not (handler.mistake or handler.offers):",
           "        if not handler.mistake:", ANSWERS),
    Mutant("not-modified-is-no-result", RELEASE_PY, "if status == 402 or not is_error(status):", "if status in (200, 402):", ANSWERS),
    Mutant("answered-on-a-mount", DISPATCH, "        if getattr(route, \"endpoint\", None) is None or self", "        if route is None or self", ANSWERS),
    Mutant("shadowed-route-starts", "src/faregate/routes/starlette.py", "mistakes = (*table.mistakes, *_find_shadowed(app, table.routes))",
           "mistakes = table.mistakes", SHADOW_TESTS),
    Mutant("shadowed-for-one-method", "src/faregate/routes/starlette.py", '*(("HEAD",) if "GET" in methods else ())', "*()", SHADOW_TESTS),
    Mutant("shadowed-by-a-mount", DISPATCH, "            yield from below(endpoint, inner, sold)\n", "            continue\n", SHADOW_TESTS),
    Mutant("another-price-shadows", "src/faregate/routes/starlette.py", 'return offer in inspect_handler(handler, getattr(match.route, "dependant", None)).offers',
           'return bool(inspect_handler(handler, getattr(match.route, "dependant", None)).offers)', SHADOW_TESTS),
    Mutant("route-added-in-lifespan", STARLETTE, 'message["type"] == "lifespan.startup.complete" and self._has_changed()',
           "False", SHADOW_TESTS),
    Mutant("route-added-while-it-runs", STARLETTE, "if self._has_changed():", "if self._routers is None:", SHADOW_TESTS),
    Mutant("route-added-below", "src/faregate/routes/changes.py", "        if below is not None:\n", "        if False:\n", SHADOW_TESTS),
    Mutant("flask-shadowed-rule", FLASK_DECORATORS, "(*list_stack_mistakes(app), *list_shadow_mistakes(app))", "list_stack_mistakes(app)", SHADOW_TESTS),
    Mutant("flask-late-rule", FLASK_PLACEMENT, "middleware.shadow_mistakes is None or middleware.shadow_mistakes[0] != rule_count", "middleware.shadow_mistakes is None", SHADOW_TESTS),
    Mutant("django-shadowed-view-starts", "src/faregate/django/middleware.py", "        _check_start()\n        _check_urls()\n", "        _check_start()\n", SHADOW_TESTS),
    Mutant("django-shadowed-in-a-urlconf", "src/faregate/django/middleware.py", "for mistake in (*own, *list_shadow_mistakes(resolver), *cached):", "for mistake in (*own, *cached):", SHADOW_TESTS),
    Mutant("django-shadowed-is-well", "src/faregate/django/routes.py", "    yield from list_shadow_mistakes(resolver)\n", "", SHADOW_TESTS),
    Mutant("answered-before-the-router", DISPATCH, "            return self._find_copied(asked, is_error=is_error)\n"
           "        return self._inspect(",
           "            return None\n"
           "        return self._inspect(", ANSWERS),
    # Several applications behind one paywall
    Mutant("only-one-application-is-asked", WRAPPERS, "    return [chain for _, chain in chains] or", "    return [chain for _, chain in chains][:1] or", APPLICATIONS),
    Mutant("a-hidden-application-is-silent", ASGI, "            if responder.asking_scope is not None:\n", "            if False:\n", APPLICATIONS),
    Mutant("slots-hold-nothing", WRAPPERS, "        held += _read_slots(layer, kind.slots)\n", "", APPLICATIONS),
    Mutant("references-hold-nothing", WRAPPERS, "isinstance(layer, ReferenceType)", "False", APPLICATIONS),
    Mutant("the-first-application-answers", DISPATCH, "return next((one for one in known if one.offers or one.mistake), known[0] if known else None)", "return known[0] if known else None", APPLICATIONS),
    Mutant("middleware-holds-no-application", DISPATCH, "    for side in list_declared_apps(core):\n", "    for side in ():\n", APPLICATIONS),
    Mutant("endpoints-hand-nothing-on", DISPATCH, "            if has_app(handing_on := route if endpoint is None else endpoint):\n", "            if False and (handing_on := route):\n", APPLICATIONS),
    Mutant("endpoints-that-hand-on-are-recalled", DISPATCH, " or self._leads_on(endpoint):\n", ":\n", APPLICATIONS),
    Mutant("the-route-of-a-paywall-is-unknown", DISPATCH, "    if route is not None and not _is_mount(route) and not has_app(core):\n", "    if False:\n", APPLICATIONS),
    Mutant("what-has-no-route-sells-nothing", DISPATCH, "known = unrouted if unrouted.offers or unrouted.mistake else None", "known = None", APPLICATIONS),
    Mutant("one-sold-of-several-runs-when-refused", DISPATCH, "return bool(handlers) and all(", "return bool(handlers) and any(", APPLICATIONS),
    Mutant("another-application-shadows", "src/faregate/routes/starlette.py", 'if any(_sells(match, scope["method"], offer) for match in firsts):', 'if _sells(firsts[0], scope["method"], offer):', APPLICATIONS),
    Mutant("cache-outside", WRAPPERS, "if not is_paywall(kind) and called not in allowed", "if False and called not in allowed", ANSWERS),
    Mutant("cached-result-of-a-decorator", STARLETTE, "return response if payment.transaction_id is None else forbid_storing(response, sold)",
           "return response", ORDERS),
    Mutant("cached-result-of-a-dependency", "src/faregate/fastapi.py", "response.headers.update(dict((responses.NO_STORE, release.MARK)))", "pass", ANSWERS),
    Mutant("price-in-a-closure", CALLABLES, "held = [one for name, one in get_closure(found).items() if not _is_neighbour(found, name, one)]",
           "held: list[object] = []", ORDERS),
    Mutant("price-in-an-object", CALLABLES, "[found.__func__, *(_find_kept(found.__self__) if through_self else ())]", "[found.__func__]", ORDERS),
    Mutant("price-above-its-route", HANDLERS, "if unpriced is not None and not offers:", "if False:", MISTAKES),
    Mutant("price-that-no-route-solves", HANDLERS, "        if offer not in offers:\n", "        if False:\n", UNASKED),
    Mutant("price-below-an-unsolved-dependency", HANDLERS, 'waiting.append(_read(call, "__init__") if isclass(call) else call)', "pass", UNASKED),
    Mutant("gate-that-is-not-awaited", STARLETTE, "            asked = authorize(request, sold, partial(_ask_with_request, request), prices_inside)\n"
           "            return answer(request, asked, args, kwargs)",
           "            async def ask() -> Any:\n"
           "                asked = authorize(request, sold, partial(_ask_with_request, request), prices_inside)\n"
           "                return await answer(request, asked, args, kwargs)\n"
           "            return ask()", UNASKED),
    Mutant("price-that-is-not-awaited", "src/faregate/fastapi.py", "        return _authorize(authorize(connection, self._sold, ask), response)",
           "        async def ask_late() -> Payment:\n"
           "            return await _authorize(authorize(connection, self._sold, ask), response)\n"
           "        return ask_late()", UNASKED),
    Mutant("memo-above-a-price-of-flask", "src/faregate/flask/decorators.py", "            check_memo(guard)\n", "", ("tests/attacks/test_memos.py",)),
    Mutant("looked-up-price-starts", HANDLERS, "        if price is not None:\n", "        if False:\n", UNASKED),
    Mutant("looked-up-price-that-is-taken-for-a-payment-starts", HANDLERS, "if one.name is None or _takes_payment(receiver, one.name):", "if one.name is None:", UNASKED),
    Mutant("price-added-to-a-route-starts", HANDLERS, "for sold in (sold for call in added for", "for sold in (sold for call in () for", UNASKED),
    Mutant("price-of-a-class-starts", HANDLERS, ", *_find_in_classes(handler, calls)]", "]", UNASKED),
    Mutant("lookup-that-calls-others-is-refused", "src/faregate/checkout/lookups.py", "if not all(_is_harmless(value, is_wanted) for value, _ in named):", "if False:", UNASKED),
    Mutant("price-of-no-route-starts-silently", STARLETTE, "                warn_unsold(app)  # now that all routes are there\n", "                pass\n", UNSOLD),
    Mutant("price-of-no-route-is-silent-without-a-lifespan", STARLETTE, '                warn_unsold(scope.get("app", self.app))\n', "                pass\n", UNSOLD),
    Mutant("price-of-no-route-is-well", "src/faregate/cli/routes.py", "[*check(table), *describe_unsold()]", "check(table)", UNSOLD),
    Mutant("price-of-a-function-is-not-noted", STARLETTE, "        note_price(guard)\n", "", UNSOLD),
    Mutant("price-of-a-dependency-is-not-noted", "src/faregate/fastapi.py", "        note_price(self)\n", "", UNSOLD),
    Mutant("charged-for-a-login", STARLETTE, "    if has_login(endpoint):\n", "    if False:\n", ORDERS),
    Mutant("charged-for-a-login-below-a-dependency", HANDLERS, "if asked and has_login(handler):", "if False:", MISTAKES),
    Mutant("price-that-is-not-called", HANDLERS, "if any(_read(one, MAKES_OFFERS)", "if False and any(_read(one, MAKES_OFFERS)", MISTAKES),
    Mutant("mistake-that-came-later", ASGI, "        if not (handler.mistake or handler.offers):", "        if not handler.offers:", MISTAKES),
    Mutant("failed-start-is-sent-only", "src/faregate/checkout/lifespan.py", "raise mistake.with_traceback(None)",
           'if scope["type"] != "lifespan":\n        raise mistake.with_traceback(None)', ("tests/adapters/test_starlette.py",)),
    Mutant("panic-leaves-its-row-open", ASGI_RESPONDER, "            await self._answer(ended)\n", "            pass\n", HANDLER_EXIT_TESTS),
    Mutant("cut-off-that-another-made-its-own", ASGI_RESPONDER, "if cancel_scope and cancel_scope.cancel_called and isinstance(ended, asyncio.CancelledError):",
           "if False:", HANDLER_EXIT_TESTS),
    Mutant("task-that-cancels-itself", SHIELDING, "if _find_task() is self:", "if False:", HANDLER_EXIT_TESTS),
    Mutant("sweep-that-ends-the-app", LIFESPAN, "            if is_cancelled_from_outside(ended):\n                raise\n            # The sweep",
           "            raise\n            # The sweep", ("tests/adapters/test_lifespan.py",)),
    Mutant("exact-paths-only", PATH_RULES, 'parts.append(part)\n    return "/" + "/".join(parts)',
           "parts.append(part)\n    return path", ADAPTER_TESTS),
    Mutant("websocket-is-free", ASGI, 'if not self.path_rules.match(scope["path"], scope.get("root_path", "")).protected:', "if True:", ADAPTER_TESTS),
    Mutant("work-is-never-late", WORK, "return int((monotonic() - self._start) * 1000)",
           "return int(monotonic() - self._start)", WSGI_TESTS),
    Mutant("completed-in-the-time-of-the-work", ASYNC_CHECKOUT, "        await self._lift_deadline()\n",
           "", ("tests/adapters/test_starlette_disconnects.py::test_the_time_of_the_work_does_not_limit_its_completion",)),
    Mutant("completion-can-be-cut-off", ASYNC_CHECKOUT, "await run(partial(self._drive_to_end, result))", "await self._drive_to_end(result)", ADAPTER_TESTS),
    Mutant("cancel-strikes-a-completion", SHIELDING, "task.is_putting_off, token = True, _unc", "task.is_putting_off, token = False, _unc", ("tests/checkout/test_shielding.py",)),
    Mutant("cut-off-answer-forgotten", ASYNC_CHECKOUT, "        if self.state in (State.COMPLETING, State.COMPLETED):\n"
           "            return await self.wait_completed()\n",
           "", ADAPTER_TESTS),
    Mutant("drained-without-end", LIFESPAN, "with anyio.move_on_after(self._drain_seconds):", "with anyio.CancelScope():",
           ("tests/adapters/test_drain.py",)),
    Mutant("not-drained-at-all", LIFESPAN, "with anyio.move_on_after(self._drain_seconds):", "with anyio.move_on_after(0):",
           ("tests/adapters/test_drain.py", "tests/adapters/test_lifespan.py")),
    Mutant("dot-dot-is-admitted", PATH_RULES, "        if _is_ambiguous(path) or not _is_path(path, root):\n"
           "            return PathMatch(ambiguous=True)\n",
           "", ADAPTER_TESTS),
    Mutant("background-of-the-unsold", ASGI_RESPONDER, "if not answer.released:", "if False:", ADAPTER_TESTS),
    Mutant("starlette-that-runs-background-of-the-unsold", ASGI, "        check_starlette()\n", "", ("tests/adapters/test_starlette.py",)),
    Mutant("mistake-is-forgiven", CHECKOUT, "self._decide(responses.build_unavailable(502))\n"
           "        self._mistake = mistake",
           "self._mistake = mistake", ADAPTER_TESTS),
    Mutant("view-instead-of-bytes", BUFFER, "self._first = bytes(chunk)", "self._first = chunk", ADAPTER_TESTS),
    Mutant("unsendable-header-is-sold", BUFFER, "tuple(map(_check_header, headers))", "headers", AUDIT_TESTS),
    Mutant("checkout-of-another-application", WSGI, "                environ[CHECKOUT] = outer  #", "                pass  #", AUDIT_TESTS),
    Mutant("checkout-authorizes-after-its-end", CHECKOUT, "        self.state = State.CLOSED  # from every state\n"
           "        if self._work is not None:",
           "        if self._work is not None:", AUDIT_TESTS),
    Mutant("opens-although-refused", CHECKOUT, "            return False\n        self._sold = offer", "            pass\n        self._sold = offer", ("tests/checkout/test_checkout.py",)),
    Mutant("servers-functions-given-away", "src/faregate/checkout/wsgi_environ.py", "name not in _NAMED and callable(value)", "False", ("tests/checkout/test_upgrades.py",)),
    Mutant("methods-as-they-were-sent", "src/faregate/checkout/wsgi_environ.py", 'str(environ["REQUEST_METHOD"]).upper()', 'str(environ["REQUEST_METHOD"])', ("tests/adapters/test_flask_placement.py", "-k", "lower_case")),
    Mutant("flask-prefix-past-the-paywall", FLASK_DECORATORS, "is not app.extensions[NAME]:", "is Ellipsis:", ("tests/adapters/test_flask_placement.py", "-k", "past_the_paywall")),
    Mutant("wsgi-connection-given-away", WSGI, "            withhold_connection(environ)\n", "", AUDIT_TESTS),
    Mutant("django-connection-given-away", DJANGO + "requests.py", "        withhold_connection(request.META)\n", "        pass\n", DJANGO_TESTS),
    Mutant("key-of-the-connection-kept", WSGI_ENVIRON, "            del environ[name]", "            pass", AUDIT_TESTS),
    Mutant("wsgi-input-leads-to-the-socket", WSGI_ENVIRON, 'environ["wsgi.input"] = _Input(environ["wsgi.input"])', "pass", UPGRADES),
    Mutant("upgrade-runs-the-work", CHECKOUT, "if self.state is not State.DECIDED and self.incoming.is_upgrade:", "if False:", FLASK_UPGRADES),
    Mutant("websocket-is-no-upgrade", REQUEST, "    return any(name not in _OF_SERVERS for name in protocols)", "    return False", UPGRADES),
    Mutant("tunnel-is-no-upgrade", REQUEST, 'if method.upper() == "CONNECT" or has_websocket_headers:', "if has_websocket_headers:", UPGRADES),
    Mutant("key-of-a-websocket-is-no-upgrade", REQUEST, 'if method.upper() == "CONNECT" or has_websocket_headers:', 'if method.upper() == "CONNECT":', UPGRADES),
    Mutant("wsgi-stream-without-an-end", WSGI, "        self._checkout.check_deadline()\n"
           "        self._checkout.buffer",
           "        self._checkout.buffer", AUDIT_TESTS),
    Mutant("lock-left-by-a-failure", SQLITE + "database.py", "            except BaseException:\n                self._connection.close()\n", "            except BaseException:\n",
           ("tests/audit/test_stored_journals.py",)),
    Mutant("missing-middleware-is-free", ASGI, "    if responder is None:\n",
           "    if responder is None:\n"
           "        return Payment(None)\n", ADAPTER_TESTS),
    # WSGI
    Mutant("sold-twice-is-sold", CHECKOUT, "failure = self._sold_twice or self.buffer.too_large", "failure = self.buffer.too_large", WSGI_TESTS),
    Mutant("wsgi-pass-before-paid", WSGI, "            checkout.start_buffer(code, tuple(headers))\n"
           "            return self._append",
           "            return self._start_response(status, headers)", WSGI_TESTS),
    Mutant("wsgi-verdict-not-enforced", WSGI, "            if not checkout.allow_unpaid(code, lambda: tuple(headers)):",
           "            if checkout.state is not State.DECIDED and not checkout.allow_unpaid(code):", WSGI_TESTS),
    Mutant("wsgi-closed-early", WSGI, "answer = self._complete(chunks)",
           "chunks = iter(list(chunks))\n"
           "            close()\n"
           "            answer = self._complete(chunks)", WSGI_TESTS),
    Mutant("wsgi-body-left-open", WSGI, "            close()\n            raise\n\n    def _send",
           "            raise\n\n    def _send", WSGI_TESTS),
    Mutant("wsgi-missing-middleware-is-free", WSGI, "    checkout = find_checkout(environ)\n    if checkout is None:\n        raise ConfigurationError(\n            f\"A handler", "    checkout = find_checkout(environ)\n    if checkout is None:\n        return Payment(None)\n        raise ConfigurationError(\n            f\"A handler", WSGI_TESTS),
    Mutant("wsgi-environ-leaves-unpaid", WSGI, "    return snapshot.restore\n", "    return lambda: None\n", WSGI_EDGES),
    Mutant("wsgi-stored-unpaid", WSGI, "        if not answer.released:\n"
           "            return answer\n",
           "", WSGI_EDGES),
    Mutant("wsgi-broken-store-takes-the-result", WSGI, "            except Exception as error:\n", "            except ZeroDivisionError as error:\n", WSGI_EDGES),
    Mutant("wsgi-refused-runs", WSGI, "if path_match.refused and path_match.offer is None and self.is_opaque:", "if False:", WSGI_EDGES),
    Mutant("wsgi-target-below-a-root", "src/faregate/checkout/wsgi_environ.py", ' if path.startswith("/") or not path else b""', "", WSGI_EDGES),
    Mutant("wsgi-swallowed-size-limit", CHECKOUT, "failure = self._sold_twice or self.buffer.too_large", "failure = self._sold_twice", WSGI_TESTS),
    Mutant("wsgi-file-wrapper", WSGI, 'environ["wsgi.file_wrapper"] = FileWrapper', "pass", WSGI_TESTS),
    # Flask
    Mutant("flask-missing-extension-is-free", FLASK_DECORATORS, "    if NAME not in app.extensions:\n        raise ConfigurationError(_NO_PAYWALL.format(sells=sold.sells))\n    if isinstance", "    if NAME not in app.extensions:\n        return None\n    if isinstance", FLASK_TESTS),
    Mutant("flask-stop-is-not-heard", FLASK_DECORATORS, "        return app.response_class(status=stop", "        app.response_class(status=stop", FLASK_TESTS),
    Mutant("flask-price-below-the-route-is-free", FLASK_PLACEMENT, "    return hasattr(view, _SOLD) and not find_offers(view)\n", "    return False\n", FLASK_TESTS),
    Mutant("flask-wrapped-function-is-free", FLASK_PLACEMENT, "    for one in walk(view):\n        if isinstance(one, FunctionType) and not is_price(one):", "    for one in [view]:\n        if isinstance(one, FunctionType) and not is_price(one):", FLASK_TESTS),
    Mutant("flask-cache-above-gives-away", FLASK_DECORATORS, "        checkout.withhold(bypass.mistake)\n", "        return response\n", FLASK_TESTS),
    Mutant("flask-cached-402-is-an-answer", RELEASE_PY, "if status == 402 or not is_error(status):", "if not is_error(status):", FLASK_TESTS),
    Mutant("flask-middleware-inside-gives-away", FLASK_MIDDLEWARE, "return self.find_bypassed(server_environ, status)", "return None", FLASK_TESTS),
    Mutant("flask-static-files-outside-are-well", FLASK_PLACEMENT, "if middleware.path_rules.match(url).protected or find_sold(",
           "if False and find_sold(", FLASK_TESTS),
    Mutant("flask-caching-above-is-well", FLASK_PLACEMENT, "if parts and is_cached_above(parts) else []", "if False else []", FLASK_TESTS),
    Mutant("flask-caching-around-a-class-is-well", FLASK + "caches.py", "any(find_offers(part) for part in called) and any(", "False and any(", FLASK_CACHES),
    Mutant("flask-caching-below-is-shared", FLASK_PLACEMENT, "if offers and not mistakes and (keys :=", "if False and (keys :=", FLASK_CACHES),
    Mutant("flask-login-below-is-charged", FLASK_PLACEMENT, "found = any(get_module(one) == ", "found = any(get_module(one) is ", FLASK_TESTS),
    Mutant("flask-answer-without-a-mark", FLASK_DECORATORS, '    headers.add("Cache-Control", NO_STORE[1])\n', "", FLASK_TESTS),
    Mutant("flask-text-without-a-mark", FLASK_DECORATORS, "        if sold is not None:\n            _forbid", "        if False:\n            _forbid", FLASK_CACHES),
    Mutant("flask-copy-without-its-slash", FLASK_PLACEMENT, "follows=has_content", "follows=False", FLASK_CACHES),
    Mutant("flask-copy-on-another-host", FLASK_PLACEMENT, "if has_content and (url_map.host_matching", "if False and (url_map.host_matching", FLASK_CACHES),
    Mutant("flask-mark-stays-on-what-is-free", FLASK_DECORATORS, '        response.headers.setlist("Cache-Control", said)\n', "        pass\n", FLASK_TESTS),
    Mutant("flask-refused-runs", FLASK_DECORATORS, "if checkout is None or not checkout.path_match.refused:\n", "if True:\n", FLASK_TESTS),
    Mutant("flask-session-object-is-kept", FLASK_DECORATORS, "        environ[_SESSION] = _get_session()\n", "        pass\n", ("tests/adapters/test_flask_state.py", "-k", "unpaid_result")),
    Mutant("flask-session-is-stored-unpaid", FLASK_MIDDLEWARE, "if checkout is None or checkout.state is not State.AUTHORIZED:", "if True:", FLASK_TESTS),
    Mutant("flask-session-of-another-context", FLASK_MIDDLEWARE, "context.run(self._save_late, app, session, result)",
           "self._save_late(app, session, result)", FLASK_TESTS),
    Mutant("flask-before-hooks-run-first", FLASK_EXTENSION, "app.after_request_funcs.setdefault(None, []).insert(0, check_response)", "app.after_request(check_response)", FLASK_TESTS),
    Mutant("flask-class-is-wrapped", FLASK_DECORATORS, "if isclass(view) or not callable(view):", "if False:", FLASK_TESTS),
    Mutant("flask-head-of-a-blueprint-is-free", FLASK_DECORATORS, 'return method == "OPTIONS" and', 'return method in ("HEAD", "OPTIONS") and', FLASK_TESTS),
    Mutant("flask-group-is-priced-before-its-login", FLASK_DECORATORS, "        asked.environ.setdefault(_GROUPS, []).append(sold)", "        authorize(sold)", ("tests/adapters/test_flask_placement.py", "-k", "login_of_a_sold")),
    Mutant("flask-group-runs-unpaid", FLASK_DECORATORS, "                return stopped\n        return dispatch(", "                pass\n        return dispatch(", ("tests/adapters/test_flask.py", "-k", "before_a_view")),
    Mutant("flask-options-of-a-blueprint-run", FLASK_DECORATORS, 'bool(getattr(rule, "provide_automatic_options", False))', "True", FLASK_TESTS),
    Mutant("flask-exempt-is-everything", FLASK_PLACEMENT, "is_exempt = any(hasattr(part, EXEMPT) for part in parts)", "is_exempt = True", FLASK_TESTS),
    Mutant("flask-any-origin-may-read", FLASK_MIDDLEWARE, 'if allowed is None or allowed not in ("*", origin):', "if allowed is None:", FLASK_TESTS),
    Mutant("statuses-that-are-no-numbers", "src/faregate/core/models.py", "if not _are_statuses(offer.billable):", "if False:", ("tests/adapters/test_arguments.py",)),
    Mutant("nothing-is-billable", "src/faregate/core/models.py", "return bool(statuses) and all(", "return all(", ("tests/adapters/test_arguments.py",)),
    Mutant("flask-late-prefix-is-free", FLASK_EXTENSION, "if self._config.get(key) != value:", "if False:", FLASK_TESTS),
    Mutant("flask-late-prefix-in-place-is-free", FLASK_EXTENSION, "return copy(value) if isinstance(value, _CHANGEABLE) else value", "return value", FLASK_TESTS),
    Mutant("flask-late-setting-fails-once", "src/faregate/flask/middleware.py", "            check_config()\n            self.check_config = None", "            self.check_config = None\n            check_config()", FLASK_TESTS),
    Mutant("workers-with-a-journal-each", "src/faregate/settings.py", "if workers > 1:", "if workers > 9:", ("tests/core/test_server_config.py",)),
    Mutant("a-new-journal-beside-the-old", REGISTRY, "    if os.path.isfile(absolute):", "    if False:", ("tests/journals/test_sqlite.py",)),
    Mutant("a-new-journal-in-a-new-folder", REGISTRY, "    if not os.path.isdir(folder):", "    if False:", ("tests/journals/test_sqlite.py",)),
    Mutant("flask-two-paywalls", FLASK_EXTENSION, "if NAME in app.extensions:", "if False:", FLASK_TESTS),
    Mutant("text-for-truth", "src/faregate/configuration.py", "if not isinstance(value, self.types) or is_stray_bool:",
           "if False:", ("tests/core/test_settings.py",)),
    # Django
    Mutant("django-sends-before-it-is-paid", DJANGO + "middleware.py", "            read_response(response, checkout)\n"
           "            answer = checkout.complete()",
           "            return response", DJANGO_TESTS),
    Mutant("django-verdict-not-enforced", DJANGO + "middleware.py", "            if checkout.allow_unpaid(",
           "            if checkout.state is State.DECIDED or checkout.allow_unpaid(", DJANGO_TESTS),
    Mutant("django-cancel-is-heard", DJANGO + "middleware.py", "await run_shielded(lambda: self._serve_in_time(checkout, request, shielded))",
           "await self._serve_in_time(checkout, request, shielded)", DJANGO_TESTS),
    Mutant("django-leaves-the-work-without-its-threads", DJANGO + "middleware.py", "            await shielded.ended.wait()\n", "", DJANGO_TESTS),
    Mutant("django-paths-are-ascii", DJANGO + "requests.py", 'environ[name] = str(meta[name]).encode().decode("latin-1")', "pass", DJANGO_TESTS),
    Mutant("django-makes-up-an-address", DJANGO + "requests.py", 'if meta.get("SERVER_PORT") == "0":', "if False:", DJANGO_TESTS),
    Mutant("django-ninja-below-the-price-is-free", DJANGO + "decorators.py", 'if any(hasattr(one, "_ninja_operation") for one in walk(view)):', "if False:", DJANGO_TESTS),
    Mutant("django-charges-before-the-login", DJANGO + "offers.py", "    if is_price(view):\n", "    if True:\n", DJANGO_TESTS),
    Mutant("django-method-before-the-class", DJANGO + "offers.py", "if _is_atomic(view) else None", "if True else None", DJANGO_TESTS),
    Mutant("django-pays-inside-the-transaction", DJANGO + "offers.py", "if _is_atomic(view) else None", "if False else None", DJANGO_TESTS),
    Mutant("two-prices-are-fine", ROUTE_ACCESS, '"paid" if len(offers) == 1 else "refused"', '"paid"', (*DJANGO_TESTS, *ROUTE_TESTS)),
    Mutant("django-session-is-stored-unpaid", DJANGO + "state.py", "self._session = _DeferredWrites(session) if is_stored else None", "self._session = None", DJANGO_STATE),
    Mutant("django-session-is-never-stored", DJANGO + "state.py", "                    self._session.perform(write)\n", "                    pass\n", DJANGO_STATE),
    Mutant("django-async-session-is-never-stored", DJANGO + "state.py", "                    await self._session.aperform(write)\n", "                    pass\n", DJANGO_STATE),
    Mutant("django-request-is-not-restored", DJANGO + "requests.py", "        return self.view_state.restore\n",
           "        return lambda: None\n", DJANGO_STATE),
    Mutant("django-messages-are-not-restored", DJANGO + "state.py", "            self._snapshot.take(vars(storage), deep=True)\n", "            pass\n", DJANGO_STATE),
    Mutant("django-language-stays", DJANGO + "state.py", "        _activate(self._language, self._zone)\n", "        pass\n", DJANGO_STATE),
    Mutant("django-cookies-of-middleware-leave", DJANGO + "responses.py", "            self.cookies = _NoCookies()\n", "            pass\n", DJANGO_STATE),
    Mutant("django-broken-store-takes-the-result", DJANGO + "state.py", '        except Exception as error:\n            log("sale", logging.ERROR, "a paid', '        except ZeroDivisionError as error:\n            log("sale", logging.ERROR, "a paid', DJANGO_STATE),
    Mutant("django-cache-above-gives-away", DJANGO + "middleware.py", "    if not offers or not may_be_result(status, offers):",
           "    if True:", DJANGO_PLACEMENT),
    Mutant("django-cache-below-is-not-resolved", DJANGO + "middleware.py", "    for path in (request.path_info, *list_spellings(request.path_info)):\n", "    for path in ():\n", DJANGO_PLACEMENT),
    Mutant("docstring-is-compared", CHECKOUT, "        self._offer, self._result_bytes = offer,", "        self._sold = self._offer = offer\n        self._result_bytes =", DOCSTRINGS),
    Mutant("docstring-breaks-proxies", "src/faregate/checkout/descriptions.py", "size <= _MAX_ENCODED", "size", DOCSTRINGS),
    Mutant("body-is-bound-again", ASGI_RESPONDER, "        if self.checkout.body_length is not None:  # another", "        if True:  # another", BODIES),
    Mutant("two-tasks-choose", CHECKOUT, "        self._sold = offer  # now: while a function chooses, another task could ask\n        return True\n",
           "        return True\n", BODIES),
    Mutant("price-of-a-seller-is-replaced", "src/faregate/checkout/openapi.py", "    if not isinstance(info.get(\"price\", _NO_PRICE), _AnnouncedPrice):\n", "    if False:\n", OPENAPI),
    Mutant("old-price-is-announced", "src/faregate/checkout/openapi.py", "    if info.pop(\"price\", None) is not None:\n", "    if False:\n", OPENAPI),
    Mutant("highest-price-is-announced-as-fixed", "src/faregate/checkout/openapi.py", " and price.scheme == \"exact\"", "", OPENAPI),
    Mutant("django-refused-runs", DJANGO + "middleware.py", "    checkout.refuse_unsold()\n"
           "    return True\n",
           "    return False\n", DJANGO_PLACEMENT),
    Mutant("django-mistakes-are-served", DJANGO + "middleware.py", "        raise ConfigurationError(mistake)\n    if checkout is None", "        pass\n    if checkout is None", DJANGO_PLACEMENT),
    Mutant("django-login-below-is-charged", DJANGO + "decorators.py", "    if has_login(view):\n", "    if False:\n", DJANGO_PLACEMENT),
    Mutant("django-mixin-below-is-charged", DJANGO + "placement.py", "        if is_priced and _is_login_mixin(base):\n", "        if False:\n", DJANGO_PLACEMENT),
    Mutant("django-answer-without-a-mark", DJANGO + "decorators.py", "        mark_private(answer)\n", "        pass\n", DJANGO_PLACEMENT),
    Mutant("django-given-away-elsewhere", DJANGO + "placement.py", "    found = _given_away.get(resolver)\n", "    return {}\n    found = _given_away.get(resolver)\n", DJANGO_PLACEMENT),
    Mutant("django-two-middlewares", DJANGO + "requests.py", "    if find_checkout(request) is not None:\n", "    if False:\n", DJANGO_PLACEMENT),
    Mutant("django-transactions-are-not-told", DJANGO + "placement.py", "    if is_atomic_in(using, view):\n", "    if False:\n", DJANGO_PLACEMENT),
    Mutant("django-cache-of-a-prefix-is-not-looked-for", DJANGO + "middleware.py", "is_path_sold=is_path_sold)", "is_path_sold=False)", DJANGO_CACHES),
    Mutant("django-starts-with-a-cache-below", DJANGO + "middleware.py", "for pattern in walk_patterns(resolver) if outside else ():", "for pattern in ():", DJANGO_CACHES),
    Mutant("django-cache-below-a-class-is-well", DJANGO + "caches.py", "is_below = is_below or bool(find_offers(part))", "pass", DJANGO_CACHES),
    Mutant("django-stores-are-compared-by-name", DJANGO + "caches.py", "return CacheKeys(middleware.key_prefix, place)", "return CacheKeys(middleware.key_prefix, (middleware.cache_alias,))", DJANGO_CACHES),
    Mutant("django-serves-prefixes-without-a-paywall", DJANGO + "stack.py", "if not PAYWALL_MADE.is_set() and _has_prefixes():", "if False:", DJANGO_START),
    Mutant("django-starts-without-a-paywall", DJANGO + "apps.py", "if any(name in sys.modules for name in _SERVING):", "if False:", DJANGO_START),
    Mutant("django-starts-with-debug-and-a-live-key", DJANGO + "stack.py", "    yield from list_debug_mistakes(environment)\n", "", DJANGO_TESTS),
    Mutant("django-starts-with-middleware-inside", DJANGO + "stack.py", "        yield from list_stack_mistakes(path_rules)\n", "        yield from list_given_away(path_rules)\n", DJANGO_PLACEMENT),
    Mutant("django-prefixes-in-other-languages-are-free", DJANGO + "languages.py", "if not get_language_from_path(below) or", "if True or", DJANGO_PLACEMENT),
    Mutant("django-price-on-a-mixin-method-is-not-seen", DJANGO + "offers.py", "found = {method: (one, *_list_called(kind, one))", "found = {method: (one,)", DJANGO_PLACEMENT),
    Mutant("django-static-files-before-are-well", DJANGO + "stack.py", "elif _WHITENOISE in kinds:", "elif False:", DJANGO_PLACEMENT),
    Mutant("django-flatpages-before-are-well", DJANGO + "stack.py", "if _FLATPAGES in kinds:", "if False:", DJANGO_PLACEMENT),
    Mutant("django-starts-although-files-are-free", DJANGO + "middleware.py", "        _check_start()\n", "        conf.get_config()\n", DJANGO_PLACEMENT),
    Mutant("django-files-below-a-prefix-are-well", DJANGO + "stack.py", "if rules.match(url, root).protected or _is_sold(url):", "if _is_sold(url):", DJANGO_PLACEMENT),
    Mutant("django-files-at-a-view-are-well", DJANGO + "stack.py", "if rules.match(url, root).protected or _is_sold(url):", "if rules.match(url, root).protected:", DJANGO_PLACEMENT),
    Mutant("index-file-is-no-file", "src/faregate/checkout/static_files.py", "            if index in names:\n", "            if False:\n", DJANGO_PLACEMENT),
    Mutant("django-endless-stream", "src/faregate/django/responses.py", "        checkout.check_deadline()\n"
           "        checkout.buffer.append(chunk)\n"
           "\n"
           "\n"
           "async",
           "        checkout.buffer.append(chunk)\n"
           "\n"
           "\n"
           "async", ("tests/adapters/test_django.py",)),
    Mutant("host-header-trusted", "src/faregate/merchant/resource_url.py", "if self._trust_host and", "if", ADAPTER_TESTS),
    # What every adapter must hold
    Mutant("bytes-that-are-no-text", PATH_RULES, "    if _NOT_TEXT.search(path):\n        return True\n", "",
           on_stack("bottle-waitress", "nothing_of_a_paid_prefix")),
    Mutant("django-runs-what-is-refused", "src/faregate/django/middleware.py", "            if checkout.state is State.DECIDED:  # the path itself is refused: no view runs\n"
           "                return _answer_unpaid(checkout, request, None)\n"
           "            offer = checkout.prefix_offer\n"
           "            # With",
           "            offer = checkout.prefix_offer\n"
           "            # With", ("tests/adapters/test_django.py",)),
    Mutant("django-awaits-what-is-refused", "src/faregate/django/middleware.py", "            if checkout.state is State.DECIDED:  # the path itself is refused: no view runs\n"
           "                return _answer_unpaid(checkout, request, None)\n"
           "            offer = checkout.prefix_offer\n"
           "            response = (offer and await aauthorize(",
           "            offer = checkout.prefix_offer\n"
           "            response = (offer and await aauthorize(", ("tests/adapters/test_django.py",)),
    Mutant("app-rewrites-the-environ", WSGI, "server_environ = environ.copy()", "server_environ = environ", FLASK_TESTS),
    Mutant("body-after-a-head", WSGI, "finalize(answer, self._checkout.incoming.request.method)",
           'finalize(answer, "GET")', WSGI_TESTS),
    Mutant("body-of-who-left-is-waited-for", ASGI_RESPONDER, "            if self._has_received:\n",
           "            if True:\n", on_stack("starlette-uvicorn", "during_access")),
    Mutant("cancelled-on-trio", SHIELDING, "except RuntimeError:  # trio\n", "except ZeroDivisionError:  # trio\n", HANDLER_EXIT_TESTS),
    # The list of routes
    Mutant("inventory-socket-is-sold", ROUTE_ACCESS, "if fault or (route.methods == WEBSOCKET and match.protected):", "if fault:", ROUTE_TESTS),
    Mutant("inventory-refused-is-free", ROUTE_ACCESS, 'elif access != "refused":', "else:", ROUTE_TESTS),
    Mutant("inventory-lost-dependency", HANDLERS, "            yield from _find_dependencies(one, overrides)\n", "", ROUTE_TESTS),
    Mutant("inventory-no-paywall-in-front", WRAPPERS, "if route.offer is not None and route.paywall is None:", "if False:",
           ROUTE_TESTS),
    Mutant("inventory-lone-prefix", ROUTE_ACCESS, "(*table.unmatched, *_find_unmatched(table.routes, rules, root)),", "table.unmatched,", ROUTE_TESTS),
    Mutant("two-proofs", REQUEST_HEADERS, "if names.count(PROOF) > 1:", "if False:", CORE),
    Mutant("huge-proofs", REQUEST_HEADERS, "if len(proof) > MAX_PROOF_BYTES:", "if False:", CORE),
    # Journals that outlive their process
    Mutant("paid-result-is-removed-by-a-claim", "src/faregate/journals/store.py", 'record["forget_at"] if record["delivered"] else None', 'record["expires_at"]', UNFETCHED_TESTS),
    Mutant("paid-result-is-purged-unsaid", f"{SQLITE}store.py", " AND NOT ({IS_SETTLED}) LIMIT ?", " LIMIT ?", UNFETCHED_TESTS),
    Mutant("paid-result-is-forgotten-in-memory", "src/faregate/journals/memory.py", "        if row.is_unfetched:\n            self._unfetched[row.key] = row\n            return\n", "", UNFETCHED_TESTS),
    Mutant("paid-result-expires-in-redis", f"{REDIS}journal.lua", "return row.delivered == '1' and delivered or unfetched end", "return delivered end", UNFETCHED_TESTS),
    Mutant("expired-is-answered", PROCEDURES, "if may_be_removed(record, now):",
           "if False:", ("tests/journals/test_contract.py",)),
    Mutant("overtaken-claim-is-believed", PROCEDURES, "return None if stamp is None else self._rows.grant(claim, after, stamp, after.lease_until - now)",
           "return self._rows.grant(claim, after, stamp or 1, after.lease_until - now)", STORE_TESTS),
    Mutant("overtaken-write-is-believed", ROW_ACCESS, 'return new if record is not None and record["stamp"] == new else None', "return new", STORE_TESTS),
    Mutant("refusal-is-taken-from-memory", PROCEDURES, "            record: Record | None = yield Find([lease.key])\n            if record is None:\n                return None, False\n",
           "            if row is not None and not change(row.copy()):\n                return row, False\n            record: Record | None = yield Find([lease.key])\n            if record is None:\n                return None, False\n", STORE_TESTS),
    Mutant("own-write-is-anothers", ROW_ACCESS, 'record is not None and record["stamp"] == new', "False", STORE_TESTS),
    Mutant("own-claim-is-anothers", PROCEDURES, 'if record is not None and record["stamp"] == stamp:', "if False:", STORE_TESTS),
    Mutant("ids-of-a-fork", ROW_ACCESS, "if self._pid != os.getpid():", "if self._pid == 0:", PROCESS_TESTS),
    Mutant("fences-are-used-twice", ROW_ACCESS, "return next(self._numbers)", "return 1", STORE_TESTS),
    Mutant("unreadable-row-holds-up-the-sweep", OPEN_PAYMENTS, "                self._put_off(record)\n",
           "                raise\n", STORE_TESTS),
    Mutant("written-over-in-sqlite", SQLITE + "store.py", 'AND key = ? AND stamp = ?"  # noqa', 'AND key = ? AND (stamp = ? OR 1)"  # noqa', STORE_TESTS),
    Mutant("written-over-in-a-batch", SQLITE + "store.py", 'f"AND journal.stamp = new.column{many + 3}"', 'f"AND new.column{many + 3} > 0"', BATCH_TESTS),
    Mutant("written-by-the-others-of-a-batch", SQLITE + "work.py", "if has_all or ", "if True or ", BATCH_TESTS),
    Mutant("deleted-unseen-in-sqlite", SQLITE + "store.py", "DELETE {_MINE} AND key = ? AND stamp = ?",
           "DELETE {_MINE} AND key = ? AND (stamp = ? OR 1)", STORE_TESTS),
    Mutant("large-result-is-no-result", SQLITE + "store.py", "coalesce(large.result, journal.result)", "large.result", LARGE_TESTS),
    Mutant("large-result-of-who-lost", SQLITE + "store.py", "            if changed:\n", "            if True:\n", LARGE_TESTS),
    Mutant("cluster-is-trusted", REDIS + "connections.py", "        _refuse_cluster(send, self._location)\n", "", REDIS_SERVERS),
    Mutant("who-takes-over-is-trusted", REDIS + "client.py", "    check.run(send)\n", "", REDIS_SERVERS),
    Mutant("demoted-server-is-kept", REDIS + "errors.py", "ReadOnlyError | MasterDownError | NoScriptError)", "NoScriptError)",
           REDIS_SERVERS),
    Mutant("redis-answered-write-is-sent-again", REDIS + "client.py", " if errors.needs_connection(reply)]", "]",
           ("tests/journals/test_redis_batches.py",)),
    Mutant("redis-url-is-guessed-at", REDIS + "connections.py", "if not has_address or", "if", REDIS_SERVERS),
    Mutant("prepared-behind-a-pooler", "src/faregate/journals/postgres/connection.py", "prepare_threshold=None", "prepare_threshold=5",
           ("tests/journals/test_postgres_concurrency.py",)),
    Mutant("last-of-a-batch-decides-on-its-sync", "src/faregate/journals/postgres/store.py", "any(task.work.durable for task in batch)",
           "bool(batch[-1].work.durable)", ("tests/journals/test_postgres_batches.py",)),
    Mutant("taken-by-what-was-rolled-back", "src/faregate/journals/postgres/store.py", '_CONFLICTS = {"23505", "40001", "40P01"}',
           "_CONFLICTS = set[str]()", ("tests/journals/test_postgres_batches.py",)),
    Mutant("done-before-is-not-noticed", "src/faregate/journals/postgres/pipeline.py", "if is_retry and task.result is False:",
           "if False:", ("tests/journals/test_postgres_batches.py",)),
    Mutant("one-transfer-pays-two-sellers", SQL + "migrations/versions/0002_authorizations_of_all_sellers.py",
           "unique=True", "unique=False", BOOKS),
    Mutant("leases-by-stamps", SQL + "store.py", "now = self._stamps.read_clock()\n        until = self._after(now, self._options.lease)\n        taken",
           "now = self._stamps.now()\n        until = self._after(now, self._options.lease)\n        taken", ATTEMPTS),
    Mutant("expiry-by-stamps", SQL + "store.py", "self._stamps.now() if is_simulated else self._stamps.read_clock()", "self._stamps.now()", ATTEMPTS),
    Mutant("simulation-ends-a-real-payment", "src/faregate/service/simulated.py", "if attempt.from_block is not None:", "if False:",
           ("tests/service/test_simulated.py",)),
    Mutant("completions-take-every-thread", "src/faregate/service/settlements.py", "max(1, 3 * threads // 4)", "threads",
           ("tests/service/test_backends.py",)),
    Mutant("one-transaction-in-two-rows", SQLITE + "schema.py",
           "CONSTRAINT one_row_per_transaction UNIQUE (namespace, transaction_id),", "", STORE_TESTS),
    Mutant("released-failure", "src/faregate/journals/states.py", "RowState.FAILED: (RowState.STUCK, *_NO_RESULT)", "RowState.FAILED: (RowState.STUCK, *FINAL)",
           ("tests/journals/test_row_rules.py",)),
    Mutant("newer-schema-is-written", SQLITE + "schema.py", "if application == APPLICATION_ID and version == VERSION:",
           "if application == APPLICATION_ID:", STORE_TESTS),
    Mutant("not-forced-to-the-disk", SQLITE + "connection.py", "'FULL' if durable else 'NORMAL'", "'NORMAL' if durable else 'NORMAL'", BATCH_TESTS),
    Mutant("forced-to-the-disk-by-its-first-only", SQLITE + "database.py", "any(task.work.durable for task in batch)", "batch[0].work.durable", BATCH_TESTS),
    Mutant("half-a-write", SQLITE + "work.py", 'connection.execute("ROLLBACK TO one")', "pass", BATCH_TESTS),
    Mutant("wrong-write-undoes-all", SQLITE + "work.py", "        if errors.concerns_all(error):\n            raise\n        task.error", "        if True:\n            raise\n        task.error", BATCH_TESTS),
    Mutant("failed-batch-is-believed", SQLITE + "database.py", "task.error = task.error or errors.to_journal_error(error, self.path)", "pass", BATCH_TESTS),
    Mutant("written-after-it-gave-up", WRITER, "                if task.try_begin():\n                    raise self._make_error()\n                wakeup", "                if True:\n                    raise self._make_error()\n                wakeup", WRITER_TESTS),
    Mutant("written-after-a-loop-gave-up", WRITER, "            elif task.try_begin():\n", "            else:\n", WRITER_TESTS),
    Mutant("written-after-a-loop-was-refused", WRITER, "                if task.try_begin():  # withdrawn", "                if True:  # withdrawn", WRITER_TESTS),
    Mutant("written-for-who-was-cancelled", WRITER, "return not self.answer.cancelled() and super().try_begin()", "return super().try_begin()", WRITER_TESTS),
    Mutant("queue-carried-over-a-fork", WRITER, "        if self._pid != os.getpid():\n            with", "        if False:\n            with", WRITER_TESTS),
    Mutant("nobody-hears-of-the-end", WRITER, "            while batch := _take_batch(self._queue, []):\n                _perform(batch, None)\n", "", WRITER_TESTS),
    Mutant("answered-before-the-commit", WRITER, "        execute(batch)\n", "        answer_all(batch)\n        execute(batch)\n", WRITER_TESTS),
    Mutant("added-to-a-log-with-a-hole", SQLITE + "errors.py", "return _get_code(error) == sqlite3.SQLITE_IOERR", "return False", BATCH_TESTS),
    Mutant("readable-by-all", SQLITE + "database.py", "0o600", "0o644", STORE_TESTS),
    Mutant("made-anew-when-taken-away", SQLITE + "database.py", "if identity is None and known is None:", "if identity is None:", STORE_TESTS),
    Mutant("connection-carried-over-a-fork", SQLITE + "connection.py", "if self._pid != os.getpid():", "if False:", PROCESS_TESTS),
    Mutant("open-while-forking", SQLITE + "database.py", "            self._forking.add(threading.get_ident())\n            self._connection.close()\n",
           "            self._forking.add(threading.get_ident())\n", PROCESS_TESTS),
    Mutant("encrypted-values-move", ENCRYPTION, 'hmac.digest(key.encryption, row, "sha256")', "key.encryption", STORE_TESTS),
    Mutant("request-in-the-clear", ENCRYPTION, 'digest(b"request", claimant.request)', "claimant.request", STORE_TESTS),
    Mutant("older-keys-find-nothing", ENCRYPTION, "claimant, named) for key in self._keys.values())", "claimant, named) for key in [self._newest])", STORE_TESTS),
    Mutant("never-full", "src/faregate/journals/quota.py", "        if self._is_full():\n            self._full_at = now\n            raise", "        if False:\n            raise", STORE_TESTS),
    Mutant("the-loop-waits-for-the-disk", "src/faregate/journals/registry.py", "journal.as_async() if isinstance(journal, SupportsAsync) else journal",
           "journal", STORE_TESTS),
    Mutant("inside-somebodys-transaction", DJANGO_JOURNAL + "transactions.py", "if _is_open(connections[using]):", "if False:", STORE_TESTS),
    Mutant("written-over-in-django", DJANGO_JOURNAL + "store.py", "row.filter(_may_become(changes), synced, stamp=stamp)", "row.filter(_may_become(changes), synced)", STORE_TESTS),
    Mutant("purged-although-owed", DJANGO_JOURNAL + "store.py", 'self._delete_where(expired, "expires_at <=", now)', 'self._delete_where(expired, "stamp >=", 0)', STORE_TESTS),
    Mutant("admin-deletes", DJANGO_JOURNAL + "admin.py", "def has_delete_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:\n        return False",
           "def has_delete_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:\n        return True", STORE_TESTS),
    Mutant("live-key-without-a-journal-key", "src/faregate/settings.py", "elif not settings.journal_keys:", "elif False:", ("tests/core",)),
    # The client
    Mutant("live-key-with-memory", "src/faregate/settings.py", 'if settings.api_key.environment == "live":\n        raise ConfigurationError(\n            "A live key with the memory',
           'if False:\n        raise ConfigurationError(\n            "A live key with the memory', ("tests/core",)),
    # The emulator and the payers of the command line: what a seller's tests, and a payer's money, rely on
    Mutant("an-authorization-is-used-twice", "src/faregate/rules/operations/access.py", "if received.payment is None or received.uses.by_authorization is not None:", "if received.payment is None:", REBUILT),
    Mutant("a-proof-is-known-by-its-nonce", "src/faregate/rules/operations/access.py", "earlier = received.uses.by_proof", "earlier = received.uses.by_proof or received.uses.by_authorization", REBUILT),
    Mutant("funds-are-reserved-twice", "src/faregate/service/database/types.py", "return funds is None or int(value) + spent <= int(funds)", "return True", ("tests/service/test_store.py", "tests/service/test_concurrency.py")),
    Mutant("complete-with-other-bytes", "src/faregate/rules/operations/complete.py", "    if not transaction.is_proof(payment.header):", "    if False:", REBUILT),
    Mutant("a-proof-without-a-challenge", "src/faregate/rules/verification.py", "return None if _has_challenge(accepted) else _NO_CHALLENGE", "return None", REBUILT),
    Mutant("a-challenge-that-is-known", "src/faregate/system.py", "return secrets.token_hex(32)", 'return "ab" * 32', REBUILT),
    Mutant("a-refused-proof-forgets-its-transaction", "src/faregate/rules/operations/access.py", "        # While this payment was verified, another call may", "        else:\n            raise (yield from _payment_required(context, verdict.reason))\n        # While this payment was verified, another call may", ("tests/service/test_backends.py", "-k", "faster")),
    Mutant("another-resource-at-one-url", "src/faregate/rules/operations/access.py", "transaction.context.listing.id != listing.id\n        or ", "", ("tests/emulator/test_access.py",)),
    Mutant("an-expired-transaction-is-open", "src/faregate/rules/operations/access.py", "return transaction.payment.valid_before <= now.timestamp()", "return False", ("tests/emulator/test_access.py",)),
    Mutant("one-fresh-entry-is-enough", INSTRUCTIONS, "return all(_has_fresh_value", "return any(_has_fresh_value", INSTRUCTIONS_TESTS),
    Mutant("a-short-value-is-enough", INSTRUCTIONS, "UNPREDICTABLE_BITS: Final = 72", "UNPREDICTABLE_BITS: Final = 60", INSTRUCTIONS_TESTS),
    Mutant("a-date-is-taken-for-chance", INSTRUCTIONS, "if size >= _SHORTEST_CONSTANT:", "if False:", INSTRUCTIONS_TESTS),
    Mutant("a-public-field-is-taken-for-fresh", INSTRUCTIONS, "all(_has_fresh_value(*pair)", 'all(_has_fresh_value({"extra": pair[0]}, {"extra": pair[1]})', INSTRUCTIONS_TESTS),
    # The SQL store of the self-hosted service
    Mutant("sql-outcome-twice", DATABASE + "transactions.py", "where(OF_ID, T.outcome.is_(None))", "where(OF_ID)", SQL_STORE),
    Mutant("sql-payment-ends-twice", DATABASE + "transactions.py", "    .where(OF_ID, _IS_OPEN)\n", "    .where(OF_ID)\n", SQL_STORE),
    Mutant("sql-reserved-is-spent", DATABASE + "authorization.py", "return sum(reservation.value for reservation in self.reservations)", "return 0",
           ("tests/emulator/test_settlement.py", "-k", "sqlite")),
    Mutant("what-the-chain-took-is-reserved-too", CHAIN + "chain.py", "            funds += reservation.value\n", "            pass\n", ("tests/service/chain/test_funds.py",)),
    Mutant("what-is-reserved-counts-as-taken", CHAIN + "chain.py", "if self.is_authorization_used(token, payer, reservation.nonce, block):", "if True:", ("tests/service/chain/test_funds.py",)),
    Mutant("funds-of-two-blocks", CHAIN + "chain.py", "reservation.nonce, block):", "reservation.nonce):", ("tests/service/chain/test_funds.py",)),
    Mutant("funds-are-read-once", "src/faregate/rules/operations/access.py", "_TRIES: Final = 3", "_TRIES: Final = 1", ("tests/service/test_backends.py", "-k", "counted_once")),
    Mutant("sql-settled-meanwhile-is-spent", "src/faregate/service/database/types.py", "spent = sum_amounts(reserved) + sum_amounts(settled) - int(settled_before)", "spent = sum_amounts(reserved)", ("tests/service/test_concurrency.py", "-k", "balance_read_before")),
    Mutant("sql-settled-meanwhile-is-spent-on-postgresql", DATABASE + "migrations/versions/0010_funds_of_all_sellers.py", "AND final_status = 'succeeded' AND finished_at >= settled_since", "AND false", ("tests/service/test_concurrency.py", "-k", "balance_read_before")),
    Mutant("each-seller-counts-alone", DATABASE + "authorization.py", "True: _OF_PAYER & T.from_block.is_not(None),", "True: _OF_PAYER & (T.account == ACCOUNT),", ("tests/service/test_shared_funds.py", "-k", "sqlite")),
    Mutant("each-seller-counts-alone-on-postgresql", DATABASE + "authorization.py", "literal_column(\"true\" if on_chain else \"false\")", "literal_column(\"false\")", ("tests/service/test_shared_funds.py", "-k", "at_once and postgres")),
    Mutant("sellers-at-once-wait-for-none", DATABASE + "migrations/versions/0010_funds_of_all_sellers.py", "    PERFORM pg_advisory_xact_lock(402002, hashtext(of_asset || of_payer));\n", "", ("tests/service/test_shared_funds.py", "tests/service/test_concurrency.py", "-k", "at_once and postgres")),
    Mutant("access-forgets-when-funds-were-read", "src/faregate/rules/operations/access.py", "store.authorize(context, payment, verdict, before)", "store.authorize(context, payment, verdict, store.find_uses(context.terms.token, payment))", ("tests/service/test_backends.py", "-k", "took_meanwhile")),
    Mutant("sql-walk-begins-at-the-newest", DATABASE + "lists.py", "page((place < _EDGE,), T.created_at.desc()", "page((existed, place < _EDGE), T.created_at.desc()", ("tests/service/test_list_counts.py", "-k", "twice")),
    Mutant("sql-list-shows-what-came-later", DATABASE + "lists.py", "(values[\"moment\"], _AFTER_ALL_IDS)", "(2**62, _AFTER_ALL_IDS)", ("tests/service/test_list_counts.py", "-k", "read_before")),
    Mutant("sql-submitted-is-not-reserved", DATABASE + "authorization.py", "or_(T.submitted_at.is_not(None), T.expires_at > _CLOCK)", "T.expires_at > _CLOCK",
           ("tests/emulator/test_settlement.py", "-k", "sqlite")),
    Mutant("sql-accounts-are-one", DATABASE + "transactions.py", "(T.account == ACCOUNT) & (T.id == bindparam(\"of_transaction\"))", "T.id == bindparam(\"of_transaction\")",
           ("tests/emulator/test_complete.py", "-k", "sqlite")),
    Mutant("sql-any-proof-completes", DATABASE + "transactions.py", "return compare_digest(self.row[\"proof_hash\"], hash_proof(header))", "return True",
           ("tests/emulator/test_rebuilt_proofs.py", "-k", "sqlite")),
    Mutant("sql-authorization-is-used-twice", DATABASE + "authorization.py", "_OF_PAYER, T.nonce == bindparam(\"nonce\")", "_OF_PAYER, T.nonce != bindparam(\"nonce\")",
           ("tests/emulator/test_access.py", "-k", "sqlite")),
    Mutant("sql-two-attempts-at-once", DATABASE + "settlement.py", "T.parked_at.is_(None), _IS_FREE)", "T.parked_at.is_(None))", SQL_STORE),
    Mutant("sql-attempt-before-completion", DATABASE + "settlement.py", "T.submitted_at.is_not(None), T.finished_at.is_(None), T.parked_at", "T.finished_at.is_(None), T.parked_at", SQL_STORE),
    Mutant("sql-lease-is-not-fenced", DATABASE + "settlement.py", ".where(OF_ID, T.finished_at.is_(None), T.attempts == _NUMBER)", ".where(OF_ID, T.finished_at.is_(None))", SQL_STORE),
    Mutant("sql-list-changes-afterwards", DATABASE + "clock.py", "return f\"max({moment}, (SELECT fence + 1 FROM accounts WHERE accounts.id = {account}))\"", "return moment",
           ("tests/emulator/test_pagination.py", "tests/emulator/test_transactions.py", "-k", "sqlite")),
    Mutant("sql-revoked-key", DATABASE + "keys.py", "    .where(_IS_VALID)\n", "",
           ("tests/service/test_keys.py",)),
    Mutant("a-simulated-transfer-is-made-twice", "src/faregate/service/simulated.py", "            if found is not None:", "            if False:", ("tests/service/test_simulated.py",)),
    Mutant("simulated-funds-are-not-locked", "src/faregate/service/database/simulated.py", "payment.payer, payment.to, lock=True)", "payment.payer, payment.to)", ("tests/service/test_simulated.py",)),
    Mutant("tenants-are-one", "src/faregate/emulator/tenants.py", "return self.main if name is None else self.get_or_create(name)", "return self.main", ("tests/emulator/test_tenants.py",)),
    Mutant("any-page-controls", "src/faregate/emulator/control/access.py", "if any(origin != f", "if False and any(origin != f", CONTROL_TESTS),
    Mutant("any-name-controls", "src/faregate/emulator/control/access.py", "if len(hosts) != 1 or not _is_local_host(hosts[0]):", "if False:", CONTROL_TESTS),
    Mutant("any-machine-controls", "src/faregate/emulator/control/access.py", "if not _is_local_client(scope):", "if False:", CONTROL_TESTS),
    Mutant("live-keys-unasked", EMULATOR + "emulator.py", "allow_live: bool = False", "allow_live: bool = True",
           ("tests/emulator/test_authentication.py", "tests/emulator/test_command.py", "tests/emulator/test_tenants.py")),
    Mutant("lost-before-and-yet-acted", "src/faregate/emulator/faults/apply.py", 'return fault.when != "before" and', "return True or", ("tests/emulator/test_faults_kinds.py",)),
    Mutant("struck-for-ever", "src/faregate/emulator/faults/apply.py", "    faults.count_application(rule)\n", "", ("tests/emulator/test_faults_kinds.py", "tests/emulator/test_faults_matching.py")),
    Mutant("state-is-not-kept", "src/faregate/emulator/state_file.py", "os.replace(beside, self.path)", "os.unlink(beside)", ("tests/emulator/test_state_file.py",)),
    Mutant("two-servers-on-one-file", "src/faregate/emulator/state_file.py", "if not free:", "if False:", ("tests/emulator/test_state_file.py",)),
    Mutant("requests-wait-for-the-disk", "src/faregate/emulator/emulator.py", "return dump_document(self.read_state(lambda service, _: self._copy(service)))",
           "return self.read_state(lambda service, _: iter(list(dump_document(self._copy(service)))))", ("tests/emulator/test_state_file.py",)),
    Mutant("told-in-a-life-undone", "src/faregate/emulator/assertions.py", "if call.undone or call.transaction is None", "if call.transaction is None", ("tests/emulator/test_calls_after_restore.py",)),
    Mutant("charged-twice-unseen", "src/faregate/emulator/assertions.py", "if len(charged) > 1:", "if len(charged) > 2:", ("tests/testing/test_invariants.py",)),
    Mutant("released-unpaid-unseen", "src/faregate/emulator/assertions.py", "if any(_allows_release(call) for call in reported):", "if reported:", ("tests/testing/test_invariants.py",)),
    Mutant("console-runs-what-payers-write", EMULATOR + "console/dom.js", "node.textContent = value", "node.innerHTML = value", ("tests/console",)),
    Mutant("real-money-unasked", PAY + "wallet.py", "self._networks = (_TEST, _LIVE) if live else (_TEST,)", "self._networks = (_TEST, _LIVE)", ("tests/pay",)),
    Mutant("open-payment-forgotten", PAY + "purchase.py", "        self.payment_file.save(payment.proof)\n", "", ("tests/pay",)),
    Mutant("refused-completion-is-the-end", PAY + "purchase.py", ', "completion_refused")', ")", ("tests/pay",)),
    Mutant("proof-readable-by-all", PAY + "payment_file.py", "os.O_EXCL, 0o600", "os.O_EXCL, 0o644", ("tests/pay",)),
    # Facilitators: what they say decides nothing about a payment that may have been sent
    Mutant("a-facilitator-is-believed", FACILITATED, "return self._chain.look(payment, terms, attempt)",
           "return PaymentSettled(attempt.hashes[-1]) if attempt.hashes else SettlementPending()", SETTLE_TESTS),
    Mutant("a-failed-settlement-is-believed", FACILITATED, "return self._chain.look(payment, terms, attempt)",
           "found = self._chain.look(payment, terms, attempt)\n        return found if attempt.hashes else PaymentRefused(str(found))", SETTLE_TESTS),
    Mutant("two-facilitators-settle-at-once", FACILITATED, "return chosen.settle(payment, terms)", "return [one.settle(payment, terms) for one in (*self._facilitators, chosen)][-1]", VERIFY_TESTS),
    Mutant("always-the-same-facilitator-settles", FACILITATED, "[(attempt.number - 1) % len(self._facilitators)]", "[0]", VERIFY_TESTS),
    Mutant("reserved-money-is-promised-twice", FACILITATED, " - committed < payment.value:", " < payment.value:", VERIFY_TESTS),
    Mutant("used-authorization-is-verified", FACILITATED, "if self._chain.is_authorization_used(terms.token, payment.payer, payment.nonce):", "if False:", VERIFY_TESTS),
    Mutant("only-the-facilitator-verifies", FACILITATED, "        if isinstance(checked, PaymentRefused):\n            return checked\n", "", VERIFY_TESTS),
    Mutant("verified-though-nobody-could-be-asked", FACILITATED, "        raise PaymentsUnavailable(f\"no facilitator could", "        return None\n        raise PaymentsUnavailable(f\"no facilitator could", VERIFY_TESTS),
    Mutant("a-refusal-of-a-facilitator-is-lost", FACILITATED, "return None if verdict.is_valid else", "return None if verdict else", VERIFY_TESTS),
    Mutant("valid-at-any-status", FACILITATOR, "if is_valid is True and response.status == 200:", "if is_valid is True:", CLIENT_TESTS),
    Mutant("refused-by-a-server-in-trouble", FACILITATOR, "if is_valid is False and response.status < 500 and", "if is_valid is False and", CLIENT_TESTS),
    Mutant("a-facilitators-trouble-is-the-payers", FACILITATOR, ' and body.get("invalidReason") not in _NOT_THE_PAYMENT:', ":", CLIENT_TESTS),
    Mutant("truthy-is-valid", FACILITATOR, "if is_valid is True and", "if is_valid and", CLIENT_TESTS),
    Mutant("settle-raises", FACILITATOR, "        except Exception as error:  # of a transport that was given", "        except KeyError as error:  # of a transport that was given", CLIENT_TESTS),
    Mutant("a-key-over-plain-http", FACILITATOR, '"live" if sends_key else "test"', '"test"', CLIENT_TESTS),
    Mutant("a-strangers-text-tells-a-secret", "src/faregate/service/chain/texts.py", "return len(word) > _LONGEST_WORD or _KEY.search(word) is not None", "return False", (*CLIENT_TESTS, "tests/service/chain/test_texts.py")),
    Mutant("anybody-signs-for-a-payer", "src/faregate/rules/verification.py", "if signer is None or signer.lower() != payment.payer:", "if signer is None:", VERIFY_TESTS),
    # What a chain proves (payments/)
    Mutant("a-reverted-transfer-pays", CHAIN + "evidence.py", "if receipt.status != 1:", "if False:", CHAIN_TESTS),
    Mutant("any-transfer-in-the-transaction-pays", CHAIN + "evidence.py", "return Effect.PAID if _is_transfer(following, payment) else Effect.USED_OTHERWISE", "return Effect.PAID if any(_is_transfer(each, payment) for each in receipt.logs) else Effect.USED_OTHERWISE", CHAIN_TESTS),
    Mutant("a-used-authorization-is-paid", CHAIN + "evidence.py", "return Effect.PAID if _is_transfer(following, payment) else Effect.USED_OTHERWISE", "return Effect.PAID", CHAIN_TESTS),
    Mutant("a-transfer-of-any-value-pays", CHAIN + "evidence.py", "return log.topics[2:] == (encode_topic(payment.to),) and log.data == data", "return log.topics[2:] == (encode_topic(payment.to),)", CHAIN_TESTS),
    Mutant("a-transfer-to-anybody-pays", CHAIN + "evidence.py", "return log.topics[2:] == (encode_topic(payment.to),) and log.data == data", "return log.data == data", CHAIN_TESTS),
    Mutant("logs-that-are-missing-refuse-a-payment", CHAIN + "evidence.py", "return Effect.NOTHING  # logs are missing", "return Effect.USED_OTHERWISE", CHAIN_TESTS),
    Mutant("a-large-receipt-ends-the-look", CHAIN + "judge.py", '        log("service", logging.DEBUG, "%s", error)\n        return None', "        raise", CHAIN_TESTS),
    Mutant("a-settlement-needs-its-receipt", CHAIN + "node.py", "            logs = self._get_logs(build_block_filter(token, payment, end.blockNumber))\n", '            raise RpcError("not asked")\n', CHAIN_TESTS),
    Mutant("another-nonce-pays", CHAIN + "evidence.py", "topics = (event, encode_topic(payment.payer), encode_topic(payment.nonce))", "topics = (event, encode_topic(payment.payer), log.topics[-1])", CHAIN_TESTS),
    Mutant("a-token-of-anybody-pays", CHAIN + "evidence.py", "return log.address == token.address.lower() and log.topics == topics\n", "return log.topics == topics\n", CHAIN_TESTS),
    Mutant("cancelled-is-paid", CHAIN + "evidence.py", "return Effect.CANCELED", "return Effect.PAID", CHAIN_TESTS),
    Mutant("confirmations-are-not-waited-for", CHAIN + "judge.py", "last = head.number - self.confirmations + 1 if is_paid", "last = head.number if is_paid", CHAIN_TESTS),
    Mutant("the-head-is-read-after-the-block", CHAIN + "judge.py", "if block.number > last:", "if block.number > (_get_head(node, query).number - self.confirmations + 1 if is_paid else last):", CHAIN_TESTS),
    Mutant("a-replaced-block-pays", CHAIN + "judge.py", "block.hash != receipt.blockHash or ", "", CHAIN_TESTS),
    Mutant("a-block-beyond-the-head-pays", CHAIN + "judge.py", " or block.number > head.number", "", CHAIN_TESTS),
    Mutant("an-old-transfer-pays-again", CHAIN + "judge.py", "if receipt.blockNumber < query.first_block:", "if False:", CHAIN_TESTS),
    Mutant("a-cancellation-fails-before-it-is-safe", CHAIN + "judge.py", "else _get_safe(node, query).number\n", "else head.number\n", CHAIN_TESTS),
    Mutant("unused-is-failed", CHAIN + "judge.py", "if safe.timestamp < payment.valid_before:", "if False:", CHAIN_TESTS),
    Mutant("expired-by-the-node-alone", CHAIN + "judge.py", "if self.clock().timestamp() < payment.valid_before:", "if False:", CHAIN_TESTS),
    Mutant("expired-though-used-in-a-safe-block", CHAIN + "judge.py", "payment.nonce, safe.number):", "payment.nonce, safe.number) and False:", CHAIN_TESTS),
    Mutant("a-safe-block-ahead-of-the-head", CHAIN + "judge.py", "if safe.number > _get_head(node, query).number:", "if False:", CHAIN_TESTS),
    Mutant("a-head-of-long-ago", CHAIN + "judge.py", "if head.number < (query.attempt.from_block or 0) - REORG_BLOCKS:", "if False:", CHAIN_TESTS),
    Mutant("a-node-of-another-chain", CHAIN + "chain.py", "if chain != self.chain:", "if False:", CHAIN_TESTS),
    Mutant("one-node-fails-a-payment", CHAIN + "chain.py", "if answers and len(refused) == len(answers):", "if refused:", CHAIN_TESTS),
    Mutant("the-last-node-outvotes-a-refusal", CHAIN + "chain.py", "    if refused:\n        log", "    if False:\n        log", CHAIN_TESTS),
    Mutant("one-node-proves-a-settlement", CHAIN + "chain.py", "return self._agreement.confirm(*proof, self.client.nodes, query)", "return proof[1].result", AGREEMENT_TESTS),
    Mutant("a-node-that-is-behind-has-no-say", CHAIN + "agreement.py", "Word.DENIES if proof.block - head.number > REORG_BLOCKS else Word.BEHIND", "Word.NONE", AGREEMENT_TESTS),
    Mutant("a-denial-does-not-count", CHAIN + "agreement.py", "        if head.number >= proof.block:\n            return Word.DENIES\n", "        if head.number >= proof.block:\n            return Word.NONE\n", AGREEMENT_TESTS),
    Mutant("one-proof-outvotes-a-denial", CHAIN + "agreement.py", "return 1 + proofs > denials if proofs else words.count(Word.NONE) == len(words)", "return True", AGREEMENT_TESTS),
    Mutant("a-node-that-stands-still-keeps-payments-open", CHAIN + "agreement.py", "            return Word.NONE\n        # A node", "            return Word.BEHIND\n        # A node", AGREEMENT_TESTS),
    Mutant("an-invented-block-is-waited-for", CHAIN + "agreement.py", "Word.DENIES if proof.block - head.number > REORG_BLOCKS else Word.BEHIND", "Word.BEHIND", AGREEMENT_TESTS),
    Mutant("the-receipt-of-another-transaction", CHAIN + "node.py", "if receipt is not None and receipt.transactionHash != transaction_hash.lower():", "if False:", CHAIN_TESTS),
    Mutant("no-contract-says-unused", CHAIN + "node.py", "if len(word) != 32:", "if False:", CHAIN_TESTS),
    Mutant("a-shallow-block-is-safe", CHAIN + "node.py", "self.get_head().number - SAFE_DEPTH", "self.get_head().number", CHAIN_TESTS),
    Mutant("two-ends-are-one", CHAIN + "node.py", "return logs[0] if len(logs) == 1 else None", "return logs[0] if logs else None", CHAIN_TESTS),
    Mutant("a-node-that-failed-is-waited-for-again", CHAIN + "failover.py", "sorted(turns, key=lambda turn: turn[1])", "turns", FAILOVER_TESTS),
    Mutant("every-request-tries-a-node-that-failed", CHAIN + "failover.py", "self._until, self._is_tried = now + _TRIAL, True", "pass", FAILOVER_TESTS),
    Mutant("a-request-has-no-deadline", CHAIN + "deadline.py", "return most if end is None else min(most, end - monotonic())", "return most", FAILOVER_TESTS),
    Mutant("a-node-that-hangs-takes-all-of-the-time", CHAIN + "rpc.py", "each = seconds if len(urls) == 1 else seconds / 2", "each = 2 * seconds", FAILOVER_TESTS),
    Mutant("the-answer-to-another-call", CHAIN + "rpc.py", 'if type(found.get("id")) is not int or found["id"] != number:', "if False:", RPC_TESTS),
    Mutant("a-result-with-an-error-status", CHAIN + "rpc.py", "if response.status != 200 or ", "if ", RPC_TESTS),
    Mutant("a-node-repeats-its-key", CHAIN + "rpc.py", 'text = text.replace(secret, "***")', "pass", RPC_TESTS),
    Mutant("a-key-in-an-error-of-the-transport", CHAIN + "rpc.py", "failure = self._build_error(method, self._url.redact(str(error)), code)", "failure = self._build_error(method, str(error), code)", RPC_TESTS),
    # The service's own gas account (payments/direct/)
    Mutant("a-transfer-that-must-revert-is-signed", DIRECT + "gas_account.py", "if not error.is_revert:\n            raise\n        return TransferReverts(_find_reason(error))", "if not error.is_revert:\n            raise\n        return 80_000", DIRECT_TESTS),
    Mutant("a-node-that-cannot-tell-says-reverted", DIRECT + "gas_account.py", "        if not error.is_revert:\n            raise\n", "", DIRECT_VERIFY_TESTS),
    Mutant("the-token-is-not-asked", DIRECT + "backend.py", "if reverts is not None:", "if False:", DIRECT_VERIFY_TESTS),
    Mutant("reserved-money-pays-again", DIRECT + "backend.py", "if funds - committed < payment.value:", "if funds < payment.value:", DIRECT_VERIFY_TESTS),
    Mutant("work-that-nobody-can-settle", DIRECT + "backend.py", "        if obstacle is not None:\n            raise", "        if False:\n            raise", DIRECT_VERIFY_TESTS),
    Mutant("each-attempt-takes-a-gas-nonce", DIRECT + "backend.py", "        if signed.gas_nonce >= mined:\n            return self.account.renew(signed, mined)\n", "", DIRECT_TESTS),
    Mutant("a-taken-gas-nonce-is-waited-for", DIRECT + "backend.py", "if signed.gas_nonce >= mined:", "if True:", DIRECT_TESTS),
    Mutant("a-mined-transfer-is-signed-again", DIRECT + "backend.py", "if self.account.is_any_successful({*attempt.hashes, signed.transaction_hash}):", "if False:", DIRECT_TESTS),
    Mutant("a-reverted-transfer-is-waited-for", DIRECT + "gas_account.py", "return receipt is not None and receipt.status == 1", "return receipt is not None", DIRECT_TESTS),
    Mutant("another-key-waits-for-the-old-one", DIRECT + "backend.py", "if signed is None or not self.account.is_sender_of(signed):", "if signed is None:", DIRECT_TESTS),
    Mutant("the-books-are-believed-about-gas-nonces", DIRECT + "gas_account.py", "nonce = max(gas_nonce or 0, found.next_nonce)", "nonce = gas_nonce or 0", DIRECT_TESTS),
    Mutant("the-chain-is-believed-about-gas-nonces", DIRECT + "gas_account.py", "nonce = max(gas_nonce or 0, found.next_nonce)", "nonce = found.next_nonce", DIRECT_TESTS),
    Mutant("an-empty-gas-account-signs", DIRECT + "gas_account.py", "        if balance >= cost:\n            return None\n", "        if True:\n            return None\n", DIRECT_TESTS),
    Mutant("a-transfer-refunds-twice", SQL + "refunds.py", "        if used is not None:\n", "        if False:\n", REFUND_TESTS),
    Mutant("more-is-refunded-than-was-received", SQL + "refunds.py", "if transfer.value > left:", "if False:", REFUND_TESTS),
    Mutant("a-removed-refund-counts", SQL + "refunds.py", "return sum(one.amount for one in found if one.is_kept)", "return sum(one.amount for one in found)", REFUND_TESTS),
    Mutant("anybodys-transfer-is-a-refund", SELFHOSTED + "refunds.py", "if one.payer in senders}", "if True}", REFUND_TESTS),
    Mutant("another-sellers-transfer-is-a-refund", SELFHOSTED + "refunds.py", "if sender in others:", "if False:", REFUND_TESTS),
    Mutant("a-refund-is-recorded-too-early", SELFHOSTED + "refunds.py", "if transfer.block > safe:", "if False:", REFUND_TESTS),
    Mutant("a-transfer-of-before-is-a-refund", SELFHOSTED + "refunds.py", "if transfer.block < (payment.from_block or 0):", "if False:", REFUND_TESTS),
    Mutant("a-payment-is-a-refund", SELFHOSTED + "refunds.py", "        if paid is not None:\n", "        if False:\n", REFUND_TESTS),
    Mutant("what-was-never-received-is-refunded", SELFHOSTED + "refunds.py", "if isinstance(self.chain.look(payment), PaymentSettled):", "if True:", REFUND_TESTS),
    Mutant("a-lost-refund-is-equal", SELFHOSTED + "refunds.py", '            return "not on the chain"\n', "            return None\n", REFUND_TESTS),
    Mutant("a-part-refunds-a-charge", SELFHOSTED + "reconciliation.py", "if refunded == transfer.value:", "if refunded:", REFUND_TESTS),
    Mutant("gas-alone-takes-payments", DIRECT + "gas_account.py", "cost = self._policy.max_gas * fees.maximum + l1_fee", "cost = self._policy.max_gas * fees.maximum", L1_FEE_TESTS),
    Mutant("gas-alone-signs", DIRECT + "gas_account.py", "gas * fees.maximum + found.l1_fee", "gas * fees.maximum", L1_FEE_TESTS),
    Mutant("any-amount-of-gas-is-paid", DIRECT + "fees.py", "return None if estimate > policy.max_gas else ", "return ", FEE_TESTS),
    Mutant("any-fee-is-paid", DIRECT + "fees.py", "maximum = min(2 * market.base_fee + market.priority, policy.max_fee)", "maximum = 2 * market.base_fee + market.priority", FEE_TESTS),
    Mutant("a-replacement-pays-any-fee", DIRECT + "fees.py", "2 * market.base_fee + market.priority), policy.max_fee)", "2 * market.base_fee + market.priority), 2**200)", FEE_TESTS),
    Mutant("a-replacement-that-nodes-refuse", DIRECT + "fees.py", "    if 10 * maximum < 11 * waiting.maximum or 10 * priority < 11 * waiting.priority:\n        return None\n", "", FEE_TESTS),
    Mutant("a-stuck-transfer-is-not-replaced", DIRECT + "gas_account.py", "or not is_due:", "or True:", DIRECT_TESTS),
    Mutant("each-attempt-raises-the-fee", DIRECT + "gas_account.py", " or not is_due:", ":", DIRECT_TESTS),
    Mutant("all-that-wait-are-replaced", DIRECT + "gas_account.py", "if transfer.gas_nonce != mined or ", "if ", DIRECT_TESTS),
    Mutant("a-replacement-pays-another-payment", DIRECT + "gas_account.py", "return GasTransaction(old.chain, old.gas_nonce, fees, old.gas_limit, old.to, old.data)", 'return GasTransaction(old.chain, old.gas_nonce, fees, old.gas_limit, old.to, b"")', DIRECT_TESTS),
    Mutant("a-replacement-with-a-gas-nonce-of-its-own", DIRECT + "gas_account.py", "return GasTransaction(old.chain, old.gas_nonce, fees,", "return GasTransaction(old.chain, old.gas_nonce + 1, fees,", DIRECT_TESTS),
    Mutant("what-an-ended-payment-signed-is-not-sent", DIRECT + "upkeep.py", "for transfer in (replacement or first, *others):\n        account.send", "for transfer in others:\n        account.send", DIRECT_TESTS),
    Mutant("a-replacement-is-sent-unwritten", DIRECT + "upkeep.py", "return renewed if renewed != first and books.replace_transfer(renewed) else None", "return renewed if books.replace_transfer(renewed) or renewed != first else None", DIRECT_TESTS),
    Mutant("a-gas-nonce-that-nobody-uses", DIRECT + "upkeep.py", "if first.gas_nonce <= mined or account.count_sent() > mined:", "if True:", DIRECT_TESTS),
    Mutant("a-gas-nonce-of-the-books-is-used-up", DIRECT + "upkeep.py", "if first.gas_nonce <= mined or account.count_sent() > mined:", "if False:", DIRECT_TESTS),
    Mutant("a-note-repeats-the-signature", DIRECT + "gas_account.py", "return clean_text(str(error))", "return str(error)", DIRECT_TESTS),
    Mutant("a-refusal-repeats-the-signature", DIRECT + "gas_account.py", 'return clean_text(str(error).partition("reverted")[2].strip(" :")) or', 'return str(error).partition("reverted")[2].strip(" :") or', DIRECT_VERIFY_TESTS),
    Mutant("a-signature-of-anybody-takes-the-gas-nonce", DIRECT + "gas_account.py", "if recover_sender(transaction.digest, signature) != signer.address:", "if False:", SIGNER_TESTS),
    Mutant("a-key-file-for-everybody", DIRECT + "signers.py", "or status.st_mode & others:", ":", SIGNER_TESTS),
    Mutant("a-gas-key-in-an-error", DIRECT + "signers.py", "raise ConfigurationError(_FORMS)", 'raise ConfigurationError(f"{_FORMS}: {gas_key}")', SIGNER_TESTS),
    Mutant("a-gas-key-in-a-repr", DIRECT + "signers.py", 'return f"KeySigner({self.address})"', 'return f"KeySigner({self._key!r})"', SIGNER_TESTS),
    Mutant("a-gas-key-in-a-pickle", DIRECT + "signers.py", 'raise TypeError("a signer cannot be copied or pickled: its key would be written down")', "return super().__reduce__()", SIGNER_TESTS),
    Mutant("the-upper-s-of-a-key-system", DIRECT + "signers.py", "min(s, ORDER - s)", "s", SIGNER_TESTS),
    Mutant("another-worker-replaced-it-forever", "src/faregate/rules/settlement.py", "        if signed.replaces is not None:\n", "        if False:\n", ("tests/rules/test_settlement_model.py", "-k", "another_worker")),
    Mutant("an-ended-payments-transfer-is-forgotten", "src/faregate/service/database/transfers.py", ".order_by(_A.gas_nonce, _A.number.desc())", ".where(~_HAS_ENDED).order_by(_A.gas_nonce, _A.number.desc())", TRANSFER_TESTS),
    Mutant("upkeep-forgets-a-hash-of-an-open-payment", "src/faregate/service/database/transfers.py", "where(_IS_REPLACED, _HAS_ENDED)", "where(_IS_REPLACED)", TRANSFER_TESTS),
    Mutant("two-workers-replace-one-transfer", "src/faregate/service/database/transfers.py", '    & (_A.transaction_hash == bindparam("old_hash", type_=String()))\n', "", TRANSFER_TESTS),
    Mutant("an-old-fee-is-sent-again", "src/faregate/service/database/transfers.py", "_A.number.desc()", "_A.number", TRANSFER_TESTS),
    Mutant("ones-own-transfer-is-anothers", DIRECT + "gas_account.py", "transfer.sender.lower() == self.address.lower()", "transfer.sender == self.address", ("tests/service/test_direct_settlement.py",)),
    Mutant("sent-before-it-is-written-down", "src/faregate/rules/settlement.py", "        if deps.store.record_signed(transaction, attempt, signed):\n            return", "        deps.payments.send(transaction.payment, terms, replace(attempt, signed=signed))\n        if deps.store.record_signed(transaction, attempt, signed):\n            return", ("tests/service/test_direct_settlement.py",)),
    Mutant("one-node-is-told", DIRECT + "gas_account.py", "take_turns(self._chain.client.nodes, monotonic()):", "take_turns(self._chain.client.nodes[:1], monotonic()):", DIRECT_TESTS),
    Mutant("real-money-goes-to-the-example", "src/faregate/service/books.py", 'if settings.payments != "simulated" and pay_to', 'if settings.payments == "simulated" and pay_to', ("tests/service/test_commands.py",)),
    Mutant("a-mistyped-address-is-corrected", "src/faregate/rules/config.py", "given != to_checksum_address(given)", "False", ("tests/service/test_commands.py",)),
    Mutant("an-environment-without-a-chain", "src/faregate/service/backends.py", "if account.environment not in self._settings.environments:", "if False:", ("tests/service/test_backends.py",)),
    Mutant("simulated-payments-are-live", "src/faregate/service/settings.py", '            return ("test",)', "            return ENVIRONMENTS", ("tests/service/test_backends.py", "tests/service/test_settings.py")),
    Mutant("a-payment-called-failed-was-charged", "src/faregate/service/commands/reconcile.py", "transaction.status in FINAL or", "False or", ("tests/service/test_reconcile.py",)),
    Mutant("the-chain-settles-what-was-called-failed", RECONCILIATION, "    if payment.submitted_at is not None and payment.finished_at is None:", "    if True:", RECONCILIATION_TESTS),
    Mutant("a-received-payment-is-gone-from-the-chain", RECONCILIATION, "                self._settled[payment.authorization] = payment", "                pass", RECONCILIATION_TESTS),
    Mutant("a-lost-row-is-not-missed", RECONCILIATION, "            self.transfers[transfer.asset, transfer.payer, transfer.nonce] = transfer", "            pass", RECONCILIATION_TESTS),
    Mutant("an-audit-of-everything-begins-late", RECONCILIATION, "        if created is None:\n", "        if created:\n", RECONCILIATION_TESTS),
    Mutant("a-lagging-node-makes-differences", RECONCILIATION, "                if is_unused is None:", "                if False:", RECONCILIATION_TESTS),
    Mutant("a-node-that-is-away-makes-differences", RECONCILIATION, "                    is_unused = self._chain.is_unused(payment)", "                    is_unused = True", RECONCILIATION_TESTS),
    Mutant("a-transfer-of-another-authorization-counts", "src/faregate/service/chain/transfers.py", "_find_place(log, log.logIndex - 1)", "_find_place(log, log.logIndex - 4)", ("tests/service/chain/test_transfers.py",)),
    Mutant("a-node-without-logs-is-an-empty-chain", "src/faregate/service/chain/transfers.py", "            raise\n        raise _TooManyLogs", "            return ()\n        raise _TooManyLogs", ("tests/service/chain/test_transfers.py",)),
    Mutant("a-full-disk-is-well", "src/faregate/service/commands/doctor.py", "            check_writes(database)\n", "            pass\n", ("tests/service/test_doctor.py",)),
    Mutant("refunds-of-failed-payments-take-from-revenue", SQL + "refunds.py", '        T.final_status == "succeeded",\n', "", ("tests/service/test_console.py",)),
    Mutant("one-node-says-what-was-received", CHAIN + "transfers.py", "if 2 * count > len(answers)]", "if count]", NODES_TESTS),
    Mutant("a-transfer-that-one-node-hides-is-nothing", CHAIN + "transfers.py", "if 2 * count == len(answers)]", "if False]", NODES_TESTS),
    Mutant("half-of-the-nodes-decide", CHAIN + "chain_view.py", "if 2 * count <= len(answers):", "if 2 * count < len(answers):", NODES_TESTS),
    Mutant("a-block-is-safe-that-one-node-calls-safe", CHAIN + "chain_view.py", "self.safe: Final = min(", "self.safe: Final = max(", NODES_TESTS),
    Mutant("a-node-that-is-behind-hides-transfers", CHAIN + "chain_view.py", "self.head: Final = min(", "self.head: Final = max(", NODES_TESTS),
    Mutant("nodes-that-disagree-make-a-payment-loose", FINALITY, "        except NodesDisagree:\n            return False\n\n    def _is_safe", "        except NodesDisagree:\n            return True\n\n    def _is_safe", NODES_TESTS),
    Mutant("a-loose-payment-is-sent-after-its-time", FINALITY, "return now < int(payment.valid_before) * _SECOND and self", "return self", FINALITY_TESTS),
    Mutant("a-loose-payment-is-sent-without-proof", FINALITY, "self._is_unused(payment)\n\n    def _send", "True\n\n    def _send", FINALITY_TESTS),
    Mutant("a-lagging-node-makes-a-payment-loose", FINALITY, "return self.chain.is_unused(payment) is True", "return self.chain.is_unused(payment) is not False", FINALITY_TESTS),
    Mutant("one-confirmation-counts-as-safe", FINALITY, "return transfer.block <= safe and self", "return self", FINALITY_TESTS),
    Mutant("two-workers-send-a-loose-payment", SQL + "finality.py", "    .where(_OF_LOOSE, _L.ended_at.is_(None), _L.next_attempt_at <= _NOW)\n", "    .where(_OF_LOOSE)\n", FINALITY_TESTS),
    Mutant("late-stamps-are-never-checked", FINALITY, "checked = now - _LATE_STAMPS", "checked = now", FINALITY_TESTS),
    Mutant("a-loose-payment-cannot-be-signed-again", SQL + "settlement.py", "or_(T.finished_at.is_(None), _IS_LOOSE)", "T.finished_at.is_(None)", FINALITY_TESTS),
    Mutant("a-row-without-its-payer", SQL + "authorization.py", "*(_PARTS[name].exists() for name in needed)", "*(_PARTS[name].exists() for name in needed if name != 'payer')", RESTORE_TESTS),
    Mutant("a-row-without-its-price", SQL + "authorization.py", "*(_PARTS[name].exists() for name in needed)", "*(_PARTS[name].exists() for name in needed if name == 'payer')", RESTORE_TESTS),
    Mutant("a-catalog-that-went-back-is-kept", SQL + "catalog.py", "known.number == account.catalog", "known.number >= account.catalog", RESTORE_TESTS),
    Mutant("another-price-under-a-published-id", "src/faregate/rules/catalog.py", "*(rules.model_dump_json() for rules in published))", "*())", PUBLISHED_IDS),
    Mutant("two-sellers-share-ids", "src/faregate/rules/catalog.py", "else (owner, *(", "else ('', *(", PUBLISHED_IDS),
    Mutant("sums-of-another-database", SQL + "reports.py", "key = account.generation, account.id, day", "key = '', account.id, day", RESTORE_TESTS),
    Mutant("a-process-remembers-another-database", SQL + "store.py", "self._shared.open_memory(self.account.generation)", "self._shared.open_memory('')", RESTORE_TESTS),
    Mutant("a-replaced-file-is-written", SQL + "engine.py", "if entry.info[_FILE] != _identify_file(file):", "if False:", RESTORE_TESTS),
    Mutant("a-database-that-is-away-is-500", "src/faregate/rules/app.py", "    except StoreUnavailable as error:", "    except ZeroDivisionError as error:", ("tests/service/test_backends.py",)),
    Mutant("a-gas-nonce-that-waits-is-used-up", DIRECT + "upkeep.py", " or account.count_sent() > mined:", ":", DIRECT_TESTS),
    # The books of the self-hosted service (service/database/)
    Mutant("an-end-is-missing-in-a-later-list", SQL + "lists.py", "later = or_(later, T.finished_at > _EARLIER)", "later = later", ("tests/service/test_list_counts.py",)),
    Mutant("a-count-is-added-to-that-of-a-later-list", SQL + "lists.py", "if earlier is not None and earlier[0] > moment:", "if False:", ("tests/service/test_list_counts.py",)),
    Mutant("an-early-end-is-counted-never", SQL + "lists.py", "later = or_(later, T.finished_at > _EARLIER)", "later = T.finished_at > _EARLIER", ("tests/service/test_list_counts.py",)),
    Mutant("books-use-an-authorization-twice", SQL + "migrations/versions/0001_first_tables.py", """        sa.UniqueConstraint(
            "account", "asset", "payer", "nonce", name=op.f("uq_transactions_account_asset_payer_nonce")
        ),
""", "", BOOKS),
    Mutant("books-use-a-proof-twice", SQL + "migrations/versions/0001_first_tables.py", """        sa.UniqueConstraint("account", "proof_hash", name=op.f("uq_transactions_account_proof_hash")),
""", "", BOOKS),
    Mutant("books-take-a-second-outcome", SQL + "transactions.py", "where(OF_ID, T.outcome.is_(None))", "where(OF_ID)", BOOKS),
    Mutant("books-end-a-payment-twice", SQL + "transactions.py", ".where(OF_ID, _IS_OPEN)", ".where(OF_ID)", BOOKS),
    Mutant("books-forget-what-a-dead-process-accepted", SQL + "transactions.py", "    next_attempt_at=case((_IS_OPEN, _NEXT)),\n", "", ATTEMPTS),
    Mutant("books-accept-and-do-not-settle", SQL + "transactions.py", "        settling_at=case((_IS_OPEN, STAMP)),\n", "", (*PARALLEL, "tests/service/test_backends.py", "-k", "told_to_wait")),
    Mutant("books-settle-before-the-rule-is-known", SQL + "store.py", 'if self._options.is_simulated and stored.row["attempts"] > 0:', "if self._options.is_simulated:", (*PARALLEL, "tests/service/test_backends.py", "-k", "told_to_wait or no_other_caller")),
    Mutant("a-repeated-completion-does-not-wait", "src/faregate/rules/settlement.py", "return counted if counted.status in FINAL else deps.wait(counted, deps)", "return counted", REPEATED),
    Mutant("a-repeated-completion-waits-afresh", "src/faregate/service/settlements.py", "self._seconds - max(0.0, waited)", "self._seconds", REPEATED),
    Mutant("an-authorization-lasts-for-ever", "src/faregate/rules/verification.py", "if payment.valid_before > now.timestamp() + most:", "if False:", ("tests/emulator/test_proofs.py", "-k", "ten_minutes")),
    Mutant("a-payment-of-nothing-is-sent", "src/faregate/rules/verification.py", "if terms.amount == 0:", "if False:", ("tests/emulator/test_account.py",)),
    Mutant("a-price-of-nothing-is-published", "src/faregate/rules/config.py", "if not required or revision.amount > 0:", "if True:", ("tests/emulator/test_account.py",)),
    Mutant("a-text-that-postgresql-refuses", "src/faregate/merchant/types.py", 'if "\\0" in text:', "if False:", ("tests/emulator/test_access_body.py", "-k", "u_0000")),
    Mutant("a-completion-says-any-status", "src/faregate/rules/receipts.py", "if record.status not in COMPLETION_STATUSES or", "if", ("tests/rules/test_receipts.py",)),
    Mutant("a-completion-succeeds-without-a-receipt", "src/faregate/rules/receipts.py", ' or (done is not None) != (record.status == "succeeded")', "", ("tests/rules/test_receipts.py",)),
    Mutant("books-settle-before-the-seller-completed", SQL + "settlement.py", "T.submitted_at.is_not(None), T.finished_at.is_(None), T.parked_at", "T.finished_at.is_(None), T.parked_at", ATTEMPTS),
    Mutant("books-attempt-after-the-end", SQL + "settlement.py", "T.submitted_at.is_not(None), T.finished_at.is_(None), T.parked_at.is_(None), _IS_FREE)", "T.submitted_at.is_not(None), T.parked_at.is_(None), _IS_FREE)", ATTEMPTS),
    Mutant("books-attempt-what-is-parked", SQL + "settlement.py", "T.finished_at.is_(None), T.parked_at.is_(None), _IS_FREE)", "T.finished_at.is_(None), _IS_FREE)", PARKED),
    Mutant("books-attempt-again-what-was-parked-meanwhile", SQL + "settlement.py", "case((T.parked_at.is_(None), _NEXT))", "_NEXT", PARKED),
    Mutant("books-park-what-has-ended", SQL + "settlement.py", "    .where(OF_ID, T.submitted_at.is_not(None), T.finished_at.is_(None))\n    .returning(*CHANGING)", "    .where(OF_ID)\n    .returning(*CHANGING)", PARKED),
    Mutant("reconcile-forgets-what-is-parked", SQL + "reports.py", "or_(_IS_PENDING, T.parked_at.is_not(None))", "_IS_PENDING", PARKED),
    Mutant("a-parked-payment-holds-up-the-gas-account", SQL + "transfers.py", "or_(transactions.c.next_attempt_at > _AT, transactions.c.parked_at.is_not(None))", "transactions.c.next_attempt_at > _AT", TRANSFER_TESTS),
    Mutant("books-begin-two-attempts-at-once", SQL + "settlement.py", "T.parked_at.is_(None), _IS_FREE)", "T.parked_at.is_(None))", ATTEMPTS),
    Mutant("books-never-end-a-lease", SQL + "settlement.py", "or_(T.lease_until.is_(None), T.lease_until <= NOW)", "T.lease_until.is_(None)", ATTEMPTS),
    Mutant("books-forget-that-something-was-sent", SQL + "settlement.py", "sent_before=bool(earlier)", "sent_before=any(row.transaction_hash for row in earlier)", ATTEMPTS),
    Mutant("books-forget-a-hash", SQL + "settlement.py", "func.coalesce(attempts.c.transaction_hash, bindparam(\"found\"))", "bindparam(\"found\")", ATTEMPTS),
    Mutant("books-let-a-late-attempt-sign", SQL + "settlement.py", ".scalar_one_or_none() != attempt.number:", ".scalar_one_or_none() is None:", ATTEMPTS),
    Mutant("books-let-a-late-attempt-end-a-lease", SQL + "settlement.py", "T.finished_at.is_(None), T.attempts == _NUMBER)", "T.finished_at.is_(None))", ATTEMPTS),
    Mutant("books-take-a-gas-nonce-twice", SQL + "settlement.py", "gas_accounts.c.next_nonce < insert.excluded.next_nonce", "gas_accounts.c.next_nonce <= insert.excluded.next_nonce", ATTEMPTS),
    Mutant("books-replace-any-transfer", SQL + "settlement.py", "return latest is not None and latest.transaction_hash == signed.replaces", "return latest is not None", ATTEMPTS),
    Mutant("books-free-what-is-submitted", SQL + "authorization.py", "or_(T.submitted_at.is_not(None), T.expires_at > _CLOCK)", "T.expires_at > _CLOCK", BOOKS),
    Mutant("books-stamp-at-the-fence", SQL + "clock.py", "SELECT fence + 1 FROM", "SELECT fence FROM", STAMPS),
    Mutant("books-stamp-at-the-fence-of-postgres", SQL + "migrations/versions/0001_first_tables.py", "greatest(moment, fence + 1)", "greatest(moment, fence)", STAMPS),
    Mutant("books-list-without-waiting-for-writers", SQL + "migrations/versions/0001_first_tables.py", "    PERFORM pg_advisory_xact_lock_shared(402001, account);\n", "", STAMPS),
    Mutant("books-settle-within-a-list", SQL + "transactions.py", "_END.where(STAMP == NOW)", "_END", STAMPS),
    Mutant("books-move-the-fence-back", SQL + "clock.py", "accounts.c.fence < bindparam(\"moment\"))", "accounts.c.fence != bindparam(\"moment\"))", STAMPS),
    Mutant("books-cut-text-at-a-zero", SQL + "statements.py", "_TEXT if isinstance(value, int) else _BINARY", "_BINARY if isinstance(value, bytes) else _TEXT", ("tests/service/test_engine.py",)),
    Mutant("books-keep-lost-connections", SQL + "engine.py", "                pooled.invalidate(error)\n                self._engine.dispose()  # the others in the pool are lost as well\n", "", ("tests/service/test_engine.py",)),
    Mutant("books-open-with-a-revoked-key", SQL + "keys.py", "    .where(_IS_VALID)\n)", ")", ("tests/service/test_keys.py",)),
    Mutant("others-read-the-books", SQL + "engine.py", "os.chmod(name, 0o600)", "pass", ("tests/service/test_engine.py",)),
    Mutant("a-flood-keeps-out-valid-keys", "src/faregate/service/rate_limits.py", "return parsed.packed[:8] if isinstance(parsed, IPv6Address) else parsed.packed", "return b''", ("tests/service/test_rate_limits.py",)),
    Mutant("a-spelling-of-a-key-is-another-key", "src/faregate/service/rate_limits.py", "read_bearer(headers).encode()", "repr(headers).encode()", ("tests/service/test_rate_limits.py",)),
    Mutant("a-catalog-changes-a-seller-it-does-not-name", SQL + "accounts.py", "    if without_id:\n", "    if False:\n", ("tests/service/test_commands.py",)),
    Mutant("sellers-of-one-name-are-one", SQL + "accounts.py", "if account.seller_id == seller.id:", "if account.name == seller.name:", ("tests/service/test_commands.py",)),
    Mutant("sellers-that-come-at-once-are-one", SQL + "apply.py", "connection.execute(LOCK_ALL)", "pass", ("tests/service/test_apply.py", "-k", "at_once")),
    Mutant("an-address-changes-unasked", SQL + "apply.py", "else account.pay_to != config.seller.pay_to", "else False", ("tests/service/test_commands.py",)),
    Mutant("a-price-changes-unasked", SQL + "apply.py", "is_other_price = price != known", "is_other_price = False", ("tests/service/test_commands.py",)),
    Mutant("a-refused-catalog-is-kept", SQL + "apply.py", "if not keep and transaction", "if False and transaction", ("tests/service/test_commands.py",)),
    Mutant("unseen-changes-are-made", SQL + "apply.py", "if expected not in (None, found):", "if False:", ("tests/service/test_apply.py",)),
    Mutant("serve-changes-a-price", "src/faregate/service/commands/serve.py", ", review=refuse_at_start(settings.catalog)", "", ("tests/service/test_commands.py",)),
    Mutant("books-edit-a-revision", SQL + "apply.py", "        return wanted.revisions[stored:]\n    return ()", "        return wanted.revisions[stored:]\n    return () if len(wanted.revisions) == stored else ()", ("tests/service/test_apply.py",)),
    # The console of the self-hosted service
    Mutant("console-session-opens-with-what-is-stored", SQL + "sessions.py", "return sha256(secret.encode()).digest()", "return secret.encode()[:32]", CONSOLE_TESTS),
    Mutant("console-session-never-ends", SQL + "sessions.py", "_S.created_at > bindparam(\"oldest\")\n", "bindparam(\"oldest\") > 0\n", CONSOLE_TESTS),
    Mutant("console-session-outlives-its-logout", CONSOLE + "app.py", "            end_session(self._books.database, _read_cookie(request))\n", "", CONSOLE_TESTS),
    Mutant("console-session-outlives-its-key", SQL + "keys.py", "    .where(_IS_VALID)\n)", ")", CONSOLE_TESTS),
    Mutant("console-opens-with-any-key", CONSOLE + "app.py", "if _READ not in owner.capabilities:", "if False:", CONSOLE_TESTS),
    Mutant("console-shows-what-the-key-may-not-see", CONSOLE + "app.py", "if needed not in viewer.capabilities:", "if False:", CONSOLE_TESTS),
    Mutant("console-takes-forms-of-other-sites", CONSOLE + "app.py", "if not _is_own_form(request):", "if False:", CONSOLE_TESTS),
    Mutant("console-shows-markup-of-sellers", "src/faregate/pages/__init__.py", "autoescape=True", "autoescape=False", (*CONSOLE_TESTS, "tests/pages")),
    # Tools of MCP servers
    Mutant("mcp-sells-failed-tools", MCP + "results.py", 'return _ERROR if result.get("isError") else _COMPLETE', "return _COMPLETE", MCP_TESTS),
    Mutant("mcp-sells-questions", MCP + "results.py", "return _NOT_YET\n", "return _COMPLETE\n", MCP_TESTS),
    Mutant("mcp-forgets-the-arguments", MCP + "requests.py", '{"arguments": params.get("arguments") or {}}', "{}", MCP_TESTS),
    Mutant("mcp-forgets-the-answers", MCP + "requests.py", 'bound["inputResponses"] = answers', "pass", MCP_TESTS),
    Mutant("mcp-binds-nothing", MCP + "calls.py", "            read_body=lambda _length: write_bound(self._params),\n", "", MCP_TESTS),
    Mutant("mcp-forgets-the-client", MCP + "requests.py", "(*_find_credentials(scope), *proof)", "proof", MCP_TRANSPORTS),
    Mutant("mcp-takes-an-order-of-keys-for-another-payment", MCP + "requests.py", "sort_keys=True", "sort_keys=False", MCP_TESTS),
    Mutant("mcp-cancels-paid-work", MCP + "middleware.py", "await run_shielded(work)", "await work()", MCP_TESTS),
    Mutant("mcp-answers-past-the-checkout", MCP + "calls.py", "self._checkout.allow_unpaid(status)", "True", MCP_MISTAKES),
    Mutant("mcp-overlooks-a-passed-price", MCP + "calls.py", "        if not (handler.mistake or handler.offers) or not", "        if not handler.mistake or not", MCP_MISTAKES),
    Mutant("mcp-starts-with-a-tool-given-away", MCP + "middleware.py", "            check_tools(self._server)\n", "", MCP_MISTAKES),
    Mutant("mcp-speaks-before-it-is-paid", MCP + "calls.py", "self._outbox.is_holding = payment.transaction_id is not None", "pass", (*MCP_STREAMS, "-k", "paid_tool_says")),
    Mutant("mcp-tells-the-progress-before-it-is-paid", MCP + "channels.py", "await self._channel.progress(self._outbox.count_progress())", "await self._channel.progress(progress, total, message)", (*MCP_STREAMS, "-k", "paid_tool_says")),
    Mutant("mcp-speaks-on-the-standalone-stream", MCP + "channels.py", "    if connection.has_standalone_channel:", "    if False:", (*MCP_STREAMS, "-k", "paid_tool_says")),
    Mutant("mcp-says-what-is-not-released", MCP + "calls.py", "        if answer.released:\n            await self._outbox", "        if True:\n            await self._outbox", (*MCP_STREAMS, "-k", "paid_tool_says")),
    Mutant("mcp-asks-before-it-is-paid", MCP + "channels.py", '        if self._outbox.is_holding:\n            raise ConfigurationError(', '        if False:\n            raise ConfigurationError(', (*MCP_TESTS, "-k", "ask_its_client")),
    Mutant("mcp-returns-a-question-unpaid", MCP + "calls.py", "            if is_question(result):", "            if False:", (*MCP_TESTS, "-k", "returns_a_question")),
    Mutant("mcp-starts-with-an-event-store", MCP + "tools.py", "        mistakes.append(EVENT_STORE)", "        pass", MCP_STREAMS),
    Mutant("mcp-sells-beside-an-event-store", MCP + "calls.py", "        if has_event_store(self._ctx):", "        if False:", (*MCP_STREAMS, "-k", "kept")),
    Mutant("mcp-lets-a-tool-say-it-was-paid", MCP + "results.py", "meta.pop(PAYMENT_RESPONSE, None)", "pass", MCP_TESTS),
    Mutant("mcp-is-inside-the-sellers-middleware", MCP + "middleware.py", "server.middleware.insert(_find_place(server), middleware)", "server.middleware.append(middleware)", MCP_MISTAKES),
    Mutant("mcp-lets-work-outlive-its-payment", MCP + "calls.py", "                self._checkout.cancel_scope = cancel_scope\n", "", (*MCP_TESTS, "-k", "too_long")),
)  # fmt: skip
