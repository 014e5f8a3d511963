"""The console over a real socket, on each database: who may look, what is shown, and what never is."""

import hmac
import re
from collections.abc import Generator
from dataclasses import replace

import pytest
from markupsafe import escape
from sqlalchemy import select, update

from faregate.rules.payments import SettlementPending, SignedTransfer
from faregate.rules.records import Transaction
from faregate.service.chain.received_transfers import ReceivedTransfer
from faregate.service.console.layout import Viewer
from faregate.service.console.overview import Watched, show_overview
from faregate.service.console.payment import show_payment
from faregate.service.database.engine import Database
from faregate.service.database.keys import hash_key
from faregate.service.database.payment_rows import find_payment_by_id, record_reconciliation
from faregate.service.database.refunds import record_refund, remove_refund
from faregate.service.database.reorg_records import record_loose
from faregate.service.database.reports import Revenue
from faregate.service.database.schema import console_sessions
from faregate.service.database.sessions import SESSION_SECONDS
from faregate.service.database.sql_store import SqlStore
from faregate.service.environment_payments import PeerStatus
from faregate.x402.tokens import Environment
from tests.service.console_server import HOSTILE, MINE, ConsoleServer, serving_console
from tests.service.sales import HASH, PAYER, authorize, failed, settle, submit, succeeded

OTHER = "Somebody else"
PAGES = ("", "/payments", "/payers", "/resources")


@pytest.fixture
def server(url: str) -> Generator[ConsoleServer]:
    with serving_console(url) as running:
        yield running


def test_a_key_opens_a_session_until_it_is_revoked(server: ConsoleServer) -> None:
    key = server.make_key()
    with server.open_client() as client:
        asked = client.get("/console")
        assert (asked.status_code, asked.headers["location"]) == (303, "/console/login")
        page = client.get("/console/login")
        assert "script" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        entered = client.post("/console/login", data={"key": f" {key.secret}\n"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/console")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert "Path=/console" in cookie
        assert "Secure" not in cookie
        assert key.secret not in cookie
        shown = client.get("/console")
        assert shown.status_code == 200
        assert escape(MINE) in shown.text
        server.revoke(key)
        assert client.get("/console").status_code == 303
        assert client.post("/console/login", data={"key": key.secret}).status_code == 401


def test_who_may_not_log_in(server: ConsoleServer) -> None:
    key = server.make_key()
    weak = server.make_key(capabilities=("access", "payers:read"))
    with server.open_client() as client:
        for wrong in ("", "svc_test_nobody", key.secret[:-1], key.stored.id, "é" * 3000):
            refused = client.post("/console/login", data={"key": wrong})
            assert refused.status_code == 401
            assert "set-cookie" not in refused.headers
        refused = client.post("/console/login", data={"key": weak.secret})
        assert refused.status_code == 403
        assert "lacks the capability transactions:read" in refused.text
        assert "set-cookie" not in refused.headers


def test_a_copy_of_the_database_opens_no_session(server: ConsoleServer) -> None:
    key = server.make_key()
    with server.open_client() as client:
        client.post("/console/login", data={"key": key.secret})
        good = client.cookies["faregate_console"]
        with server.storage.database.read() as connection:
            [stored] = connection.execute(select(console_sessions)).all()
        account = server.find_account().id
        expires_at = 4_000_000_000
        claims = f"faregate console 1 {account} {key.stored.id} {expires_at}"
        signature = hmac.digest(hash_key(key.secret), claims.encode(), "sha256").hex()
        forged = (
            "",
            good[:-1],
            good.upper(),
            stored.secret_hash.hex(),
            hash_key(key.secret).hex(),
            f"{account}.{key.stored.id}.{expires_at}.{signature}",
        )
        client.cookies.clear()
        for cookie in forged:
            answer = client.get("/console", headers={"Cookie": f"faregate_console={cookie}"})
            assert answer.status_code == 303, cookie
        assert client.get("/console", headers={"Cookie": f"faregate_console={good}"}).status_code == 200


def test_a_session_is_over_after_its_time_and_at_logout(server: ConsoleServer) -> None:
    aged = update(console_sessions).values(created_at=console_sessions.c.created_at - SESSION_SECONDS * 10**6)
    with server.logged_in() as client:
        with server.storage.database.write() as connection:
            connection.execute(aged)
        assert client.get("/console").status_code == 303
    with server.logged_in() as client:
        with server.storage.database.read() as connection:
            assert len(connection.execute(select(console_sessions)).all()) == 1
        cookie = client.cookies["faregate_console"]
        client.post("/console/logout")
        answer = client.get("/console", headers={"Cookie": f"faregate_console={cookie}"})
        assert answer.status_code == 303


def test_hashes_of_a_chain_link_to_its_explorer(server: ConsoleServer) -> None:
    store = server.open_store()
    payment = store.find_transaction(settle(store).id)
    assert payment is not None
    assert payment.settled is not None
    hosts: dict[Environment, str] = {"test": "sepolia.basescan.org", "live": "basescan.org"}
    for environment, host in hosts.items():
        viewer = Viewer(MINE, environment, False, frozenset())
        link = f'<a href="https://{host}/tx/{payment.settled.transaction_hash}" rel="noreferrer noopener"'
        assert link in show_payment(viewer, payment, [], None, [], payment.created_at).decode()
        simulated = replace(viewer, is_simulated=True)
        assert link not in show_payment(simulated, payment, [], None, [], payment.created_at).decode()


def test_cells_name_their_column_for_phones(server: ConsoleServer) -> None:
    store = server.open_store()
    settled = settle(store)
    difference = {
        "kind": "foreign",
        "account": store.account.id,
        "transaction": None,
        "transaction_hash": HASH,
        "books": "no payment",
        "chain": "settled on the chain",
    }
    record_reconciliation(server.storage.database, "test", store.now(), {"named": [difference]})
    with server.logged_in() as client:
        tables = [
            table
            for page in (*PAGES, f"/payments/{settled.id}")
            for table in re.findall("<table>.*?</table>", client.get(f"/console{page}").text, re.DOTALL)
        ]
    assert len(tables) == 7
    for table in tables:
        columns = re.findall("<th [^>]*>(.*?)</th>", table)
        for row in table.split("<tr>")[2:]:
            assert re.findall('data-title="(.*?)"', row) == columns


def test_forms_of_other_sites_are_refused(server: ConsoleServer) -> None:
    form = {"key": server.make_key().secret}
    with server.open_client() as client:
        for sent in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://[bad"},
        ):
            assert client.post("/console/login", data=form, headers=sent).status_code == 403
        by_https = {"Sec-Fetch-Site": "same-origin", "Origin": server.url.replace("http:", "https:")}
        entered = client.post("/console/login", data=form, headers=by_https)
        assert entered.headers["set-cookie"].endswith("; Secure")
        assert client.post("/console/payments").status_code == 405
        assert client.delete("/console/payments").status_code == 405
        left = client.post("/console/logout")
        assert "Max-Age=0" in left.headers["set-cookie"]


def test_pages_show_the_payments_of_one_account_only(server: ConsoleServer) -> None:
    mine, theirs = settle(server.open_store()), settle(server.open_store(OTHER), f"0x{'ab' * 20}")
    with server.logged_in() as client:
        for page in PAGES:
            text = client.get(f"/console{page}").text
            assert theirs.id not in text
            assert theirs.payer.identifier not in text
            assert OTHER not in text
        assert f"/console/payments/{mine.id}" in client.get("/console/payments").text
        assert client.get(f"/console/payments/{mine.id}").status_code == 200
        assert client.get(f"/console/payments/{theirs.id}").status_code == 404
        assert "no such payments" in client.get(f"/console/payments?payer={theirs.payer.identifier}").text
        assert "no such payments" in client.get(f"/console/payments?payer={theirs.payer.id}").text


def test_each_page_needs_its_capability(server: ConsoleServer) -> None:
    with server.logged_in(capabilities=("transactions:read",)) as client:
        found = [client.get(f"/console{page}").status_code for page in PAGES]
        assert found == [200, 200, 403, 403]
        assert "/console/payers" not in client.get("/console").text
        assert client.get("/console/nowhere").status_code == 404


def test_revenue_is_exact_and_what_is_open_is_counted(server: ConsoleServer) -> None:
    store = server.open_store()
    settle(store), settle(store), submit(store)
    store.record_outcome(held := authorize(store), failed(held))
    authorize(store)
    settle(server.open_store(OTHER))
    with server.logged_in() as client:
        for _ in range(2):  # sums of days that are over are remembered
            text = re.sub(r"<[^>]+>", " ", client.get("/console").text)
            assert re.search(r"USDC\s+0\.10 USDC\s+0\.10 USDC\s+0\.10 USDC\s", text)
            assert re.search(r"succeeded\s+2\s+2\s+2\s+failed\s+1\s+1\s+1\s", text)
            assert re.search(r"(?s)1\s+authorized .* 1\s+settling .* 0\s+reconciling ", text)
            assert re.search(r"submitted \d+ s ago", text)


def test_revenue_tells_what_was_refunded(server: ConsoleServer) -> None:
    store = server.open_store()
    sold, kept = settle(store), settle(store)
    store.record_outcome(charged := authorize(store), failed(charged))
    database = server.storage.database
    refund(database, store, sold, 20_000, "0x01")
    refund(database, store, charged, 50_000, "0x02")  # it was charged, and was never counted as earned
    refund(database, store, kept, 1, "0x03")
    assert remove_refund(database, store.account.id, kept.id, "0x03", store.stamps.read_clock())
    with server.logged_in() as client:
        text = re.sub(r"<[^>]+>", " ", client.get("/console").text)
    assert re.search(r"USDC\s+0\.10 USDC\s+0\.10 USDC\s+0\.10 USDC\s", text)
    assert re.search(r"USDC, refunded\s+0\.02 USDC\s+0\.02 USDC\s+0\.02 USDC\s", text)
    assert re.search(r"USDC, after refunds\s+0\.08 USDC\s+0\.08 USDC\s+0\.08 USDC\s", text)


def refund(
    database: Database, store: SqlStore, payment: Transaction, amount: int, transaction_hash: str
) -> None:
    """Record a refund as if the chain had shown it."""
    terms, payer = payment.context.terms, payment.payment.payer
    moved = ReceivedTransfer(
        asset=terms.token.address.lower(),
        sender=terms.pay_to.lower(),
        to=payer.lower(),
        value=amount,
        nonce=None,
        transaction_hash=transaction_hash,
        block=1,
        log_index=0,
    )
    now = store.stamps.read_clock()
    record_refund(database, (store.account.id, payment.id), moved, 1, terms.amount, now)


def test_one_payment_says_why_it_reconciles(server: ConsoleServer) -> None:
    store = server.open_store()
    payment = submit(store)
    attempt = store.begin_attempt(payment)
    assert attempt is not None
    signed = SignedTransfer(f"0x{'cd' * 20}", 84532, 7, "0x02f8deadbeef", HASH)
    assert store.record_signed(payment, attempt, signed)
    with server.logged_in() as client:
        running = client.get(f"/console/payments/{payment.id}").text
        assert "An attempt is under way" in running
        store.record_answer(payment, attempt, None, f"https://pay.example: 500 {HOSTILE}")
        store.postpone(payment, attempt, SettlementPending("reconciling"), None)
        text = client.get(f"/console/payments/{payment.id}").text
        listed = client.get("/console/payments?status=reconciling").text
    assert payment.id in listed
    assert "https://pay.example: 500 &lt;script&gt;" in text
    assert "The next attempt begins" in text
    assert HASH in text
    assert "gas nonce 7" in text
    known = store.find_transaction(payment.id)
    assert known is not None
    for secret in (
        "02f8deadbeef",
        known.payment.signature,
        known.row["proof_hash"].hex(),
        "PAYMENT-SIGNATURE",
    ):
        assert secret not in text


def test_a_parked_payment_says_why_and_since_when(server: ConsoleServer) -> None:
    store = server.open_store()
    parked = store.park(submit(store), f"asked by the seller {HOSTILE}")
    assert parked is not None
    assert parked.parked is not None
    with server.logged_in() as client:
        text = client.get(f"/console/payments/{parked.id}").text
    since = parked.parked.at.replace(microsecond=0).isoformat()
    assert f'It is parked since <time datetime="{since}">' in text
    assert f"<q>asked by the seller {escape(HOSTILE)}</q>" in text
    assert "attempt begins" not in text


def test_a_payment_shows_what_its_seller_reported(server: ConsoleServer) -> None:
    store = server.open_store()
    broken, sold = authorize(store), authorize(store)
    store.record_outcome(broken, failed(broken))
    values = {"pages": "3", "minutes": "0.5"}
    store.record_outcome(sold, succeeded(sold).model_copy(update={"values": values}))
    with server.logged_in() as client:
        broken_text, sold_text = (client.get(f"/console/payments/{made.id}").text for made in (broken, sold))
    assert "<dd>failed: <code>broken</code></dd>" in broken_text
    assert "<dd>succeeded, pages = 3, minutes = 0.5</dd>" in sold_text


def test_only_a_proof_says_that_nothing_was_paid(server: ConsoleServer) -> None:
    store = server.open_store()
    reported, proven = authorize(store), submit(store)
    store.record_outcome(reported, failed(reported))
    store.record_failed(proven, None)
    with server.logged_in() as client:
        texts = [client.get(f"/console/payments/{one.id}").text for one in (reported, proven)]
    assert "whoever holds the authorization can settle it until" in texts[0]
    assert ["nothing was paid for it" in text for text in texts] == [False, True]


def test_differences_of_books_and_chain_are_shown_to_their_seller(server: ConsoleServer) -> None:
    mine, other = server.open_store(), server.open_store(OTHER)
    named = [
        {
            "kind": "charged",
            "account": store.account.id,
            "transaction": settle(store).id,
            "transaction_hash": HASH,
            "books": "failed in the books",
            "chain": "settled on the chain",
        }
        for store in (mine, other)
    ]
    foreign = {**named[0], "kind": "foreign", "transaction": None, "books": "no payment"}
    result = {"named": [*named, foreign]}
    many = {"named": [foreign] * 53}
    with server.logged_in() as client:
        assert "Books and chain" not in client.get("/console").text
        record_reconciliation(server.storage.database, "test", mine.now(), result)
        text = client.get("/console").text
        record_reconciliation(server.storage.database, "test", mine.now(), many)
        assert "3 more: faregate service reconcile lists all." in client.get("/console").text
    assert f"/console/payments/{named[0]['transaction']}" in text
    assert str(named[1]["transaction"]) not in text
    assert "no payment" in text
    assert HASH in text


def test_a_payment_that_came_loose_says_so(server: ConsoleServer) -> None:
    store, database = server.open_store(), server.storage.database
    open_one, settled_one, lost_one = (settle(store) for _ in range(3))
    for made, ended, found in (
        (open_one, False, None),
        (settled_one, True, HASH),
        (lost_one, True, None),
    ):
        row = find_payment_by_id(database, store.account.id, made.id)
        assert row is not None
        record_loose(database, row, 1, ended=ended, settled_by=found)
    with server.logged_in() as client:
        texts = [client.get(f"/console/payments/{one.id}").text for one in (open_one, settled_one, lost_one)]
        untouched = client.get(f"/console/payments/{settle(store).id}").text
    assert "It is sent again" in texts[0]
    assert "It settled after all" in texts[1]
    assert HASH in texts[1]
    assert "nothing was received" in texts[2]
    assert "reorganisation" not in untouched


def test_a_refund_is_shown_until_it_is_removed(server: ConsoleServer) -> None:
    store, database = server.open_store(), server.storage.database
    made = settle(store)
    terms, account = made.context.terms, store.account.id
    transfer = ReceivedTransfer(
        terms.token.address.lower(), terms.pay_to.lower(), made.payment.payer, 20_000, None, HASH, 1, 0
    )
    record_refund(database, (account, made.id), transfer, 1, terms.amount, 1)
    with server.logged_in() as client:
        shown = client.get(f"/console/payments/{made.id}").text
        assert remove_refund(database, account, made.id, HASH, 2)
        removed = client.get(f"/console/payments/{made.id}").text
    assert "0.02 USDC went back to the payer" in shown
    assert shown.count(HASH) == removed.count(HASH) + 1
    assert "Refunds" not in removed


def test_the_overview_lists_what_is_parked_and_what_the_chain_lost(server: ConsoleServer) -> None:
    store, other, database = server.open_store(), server.open_store(OTHER), server.storage.database
    parked, foreign = submit(store), submit(other)
    assert store.park(parked, HOSTILE) is not None
    assert other.park(foreign, "not yours") is not None
    open_one, settled_one, lost_one = (settle(store) for _ in range(3))
    for made, ended, found in ((open_one, False, None), (settled_one, True, HASH), (lost_one, True, None)):
        row = find_payment_by_id(database, store.account.id, made.id)
        assert row is not None
        record_loose(database, row, 1, ended=ended, settled_by=found)
    with server.logged_in() as client:
        text = client.get("/console").text
    assert "<h2>Parked</h2>" in text
    assert escape(HOSTILE) in text
    assert "<script" not in text
    for shown in (parked, open_one, lost_one):
        assert f"/console/payments/{shown.id}" in text
    for hidden in (foreign.id, "not yours", settled_one.id):
        assert hidden not in text
    assert "sent again while its authorization is valid" in text
    assert "lost: nothing was received" in text


def test_the_overview_shows_nodes(server: ConsoleServer) -> None:
    good = PeerStatus("test", 1, "good.example", 12, 0, 0.1, False)
    bad = PeerStatus("test", 2, HOSTILE, 34, 5, 0.1, True, disagreements=2)
    store = server.open_store()
    viewer = Viewer("Shop", "test", False, frozenset())
    revenue = Revenue(server.storage.database, server.storage.stamps)
    text = show_overview(viewer, store, revenue, Watched(None, (), (), (good, bad))).decode()
    assert "good.example" in text
    assert escape(HOSTILE) in text
    assert "fails, and is asked last; contradicted others 2 times" in text


def test_what_others_wrote_is_never_markup(server: ConsoleServer) -> None:
    payment = settle(server.open_store())
    with server.logged_in() as client:
        for page in ("/payments", "/resources", f"/payments/{payment.id}"):
            text = client.get(f"/console{page}").text
            assert escape(HOSTILE) in text
            assert "<script" not in text
        asked = client.get("/console/payments", params={"payer": f'"><b>{HOSTILE}', "status": "<b>"})
        assert asked.status_code == 200
        assert "<b>" not in asked.text
        assert "no such payments" in client.get("/console/payments?payer=%00").text
        assert "receipt" in client.get(f"/console/payments/{payment.id}").text.lower()


def test_pages_of_a_list_show_one_moment(server: ConsoleServer) -> None:
    store = server.open_store()
    first = [authorize(store).id for _ in range(30)]
    with server.logged_in() as client:
        newest = client.get("/console/payments").text
        assert "page 1 of 2, 30 in all" in newest
        (older,) = set(re.findall(r'<a href="([^"]+)">Older', newest))
        later = authorize(store).id
        page = client.get(older.replace("&amp;", "&")).text
        assert "page 2 of 2, 30 in all" in page
        shown = re.findall(r"/console/payments/(txn_\w+)", newest + page)
        assert shown == first[::-1]
        assert later in client.get("/console/payments").text
        found = client.get("/console/payments", params={"payer": PAYER.lower(), "page": "9" * 40}).text
        assert "31 in all" in found
        assert client.get("/console/payments?as_of=2999-01-01T00:00:00Z").status_code == 200
        assert client.get("/console/payments?as_of=soon").status_code == 422
