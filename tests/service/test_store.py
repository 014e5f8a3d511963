"""What the SQL store does for one sale after the other."""

from dataclasses import replace
from datetime import timedelta

import pytest

from faregate.merchant.models import ResourceExecutionMetadata
from faregate.rules.account import Account, SettlementRule
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import Attempt, PaymentVerified, SettlementPending
from faregate.rules.published_payers import TEST_PAYERS
from faregate.service.database.accounts import list_accounts
from faregate.service.database.apply import apply_account
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.schema import metadata
from faregate.service.database.simulated_ledger import set_up_ledger
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared
from faregate.system import random_challenge, random_id
from tests.service.databases import MovedClock
from tests.service.sales import (
    HASH,
    PAYER,
    authorize,
    failed,
    get_reserved,
    open_store,
    resolve,
    settle,
    sign,
    submit,
    succeeded,
)
from tests.support.headers import encode_header

pytestmark = pytest.mark.every_value

OTHER = TEST_PAYERS["slow"].address


def test_a_transaction_is_read_as_it_was_made(store: SqlStore, clock: MovedClock) -> None:
    context = resolve(store)
    payment = sign(context, value=10**30 - 1, valid_before=2**256 - 1)
    made = store.authorize(context, payment, PaymentVerified(PAYER, 123))
    assert made is not None
    found = store.find_transaction(made.id)
    assert found is not None
    assert (found.payment, found.context) == (replace(payment, header=""), context)
    assert (found.payer.identifier, found.status) == (PAYER, "authorized")
    assert found.created_at == found.changed_at == found.payer.created_at == clock.moment
    assert found.is_proof(payment.header)
    assert not found.is_proof(payment.header + "=")
    uses = store.find_uses(context.terms.token, payment)
    for other in (store.find_by_proof(payment.header), uses.by_proof, uses.by_authorization):
        assert other is not None
        assert other.id == made.id


def test_what_a_payer_echoes_for_catalogues_is_kept(store: SqlStore) -> None:
    context = resolve(store)
    echoed = {"resource": {"url": "https://seller.example"}, "extensions": {"bazaar": {"info": {}}}}
    without = {"resource": echoed["resource"]}
    too_long = {**echoed, "extensions": {"bazaar": "x" * 9000}}
    kept = list[object]()
    for said in (echoed, without, too_long):
        payment = sign(
            context, header=encode_header({**said, "accepted": {"extra": {"challenge": "secret"}}})
        )
        made = store.authorize(context, payment, PaymentVerified(PAYER))
        assert made is not None
        found = store.find_transaction(made.id)
        assert found is not None
        assert "secret" not in found.payment.kept
        kept.append(found.payment.echoed)

    assert kept == [echoed, {}, {}]


def test_neither_proof_nor_key_is_in_the_database(store: SqlStore, database: Database) -> None:
    context = resolve(store)
    store.authorize(context, sign(context, header="a-proof-that-is-secret"), PaymentVerified(PAYER))
    with database.read() as connection:
        for table in metadata.sorted_tables:
            assert "a-proof-that-is-secret" not in repr(connection.execute(table.select()).all())


def test_an_authorization_is_used_once(store: SqlStore) -> None:
    context = resolve(store)
    payment = sign(context)
    assert store.authorize(context, payment, PaymentVerified(PAYER)) is not None
    rewritten = replace(payment, header="the same authorization in other bytes")
    assert store.authorize(context, rewritten, PaymentVerified(PAYER)) is None
    other_nonce = sign(context, header=payment.header)
    assert store.authorize(context, other_nonce, PaymentVerified(PAYER)) is None


def test_open_transactions_reserve_their_value(store: SqlStore, clock: MovedClock) -> None:
    expiring = int(clock.moment.timestamp()) + 60
    authorize(store, valid_before=expiring)
    open_one, submitted = authorize(store), authorize(store, valid_before=expiring)
    store.record_outcome(submitted, succeeded(submitted))
    authorize(store, OTHER)
    assert get_reserved(store) == 150_000
    clock.move(60)  # what was not submitted in time can never settle
    assert get_reserved(store) == 100_000
    store.record_settled(submitted, HASH, None)
    store.record_outcome(open_one, failed(open_one))
    assert get_reserved(store) == 0


@pytest.mark.parametrize(("open_for", "covered"), [(50_000, True), (49_999, False)])
def test_funds_must_cover_what_is_open_as_well(
    store: SqlStore, clock: MovedClock, open_for: int, covered: bool
) -> None:
    """Also if the open one was authorized while this payment was verified."""
    authorize(store, valid_before=int(clock.moment.timestamp()) + 60)
    context = resolve(store)
    payment = sign(context, value=10**30 - 50_001)
    funds = payment.value + open_for
    made = store.authorize(context, payment, PaymentVerified(PAYER, 1, funds))
    assert (made is not None) is covered
    other = store.authorize(context, sign(context, OTHER), PaymentVerified(OTHER, 1, 50_000))
    assert other is not None


def test_the_first_outcome_counts(store: SqlStore, clock: MovedClock) -> None:
    made = authorize(store)
    moment = clock.move(5)
    recorded = store.record_outcome(made, succeeded(made))
    assert recorded is not None
    assert (recorded.status, recorded.submitted_at, recorded.accepted) == (
        "settling",
        moment,
        succeeded(made),
    )
    assert store.record_outcome(made, failed(made)) is None
    assert store.record_outcome(recorded, succeeded(made)) is None


def test_the_first_attempt_begins_with_the_outcome(store: SqlStore, clock: MovedClock) -> None:
    """In one commit: no other worker can begin one in between."""
    made = authorize(store)
    recorded = store.record_outcome(made, succeeded(made), begins_attempt=True)
    assert recorded is not None
    clock.move(5)
    assert store.take_jobs(1) == [], "it is leased, although it is due by now"
    attempt = store.begin_attempt(recorded)
    assert attempt == Attempt(clock.moment - timedelta(seconds=5), 1, 100)
    assert store.begin_attempt(recorded) is None, "it has begun, and is leased"
    clock.move(26)
    [(_, second)] = store.take_jobs(1)
    assert (second.number, second.sent_before) == (2, True), "what the first one sent is not known"


def test_an_outcome_that_begins_nothing(store: SqlStore) -> None:
    """Of work that failed, of a payment that has ended, and of one that has an outcome."""
    broken, ended = authorize(store), authorize(store)
    assert store.record_outcome(broken, failed(broken), begins_attempt=True) is not None
    store.record_failed(ended, None)
    late = store.record_outcome(ended, succeeded(ended), begins_attempt=True)
    assert late is not None
    assert (late.status, late.accepted) == ("failed", succeeded(ended))
    assert [store.begin_attempt(one) for one in (broken, late)] == [None, None]
    assert [store.read_attempt(one).sent_before for one in (broken, late)] == [False, False]
    assert store.record_outcome(late, succeeded(ended), begins_attempt=True) is None


def test_failed_work_ends_the_transaction(store: SqlStore, clock: MovedClock) -> None:
    made = authorize(store)
    recorded = store.record_outcome(made, failed(made))
    assert recorded is not None
    assert (recorded.status, recorded.submitted_at) == ("failed", None)
    assert store.begin_attempt(recorded) is None
    clock.move(3600)
    assert store.take_jobs(10) == []


def test_a_payment_settles_once(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    moment = clock.move(2)
    done = store.record_settled(made, HASH, None)
    assert done.settled is not None
    assert (done.status, done.settled.at, done.settled.transaction_hash) == ("succeeded", moment, HASH)
    clock.move(2)
    again = store.record_settled(made, "0x" + "cd" * 32, None)
    assert again.settled == done.settled
    assert store.record_failed(made, None).settled == done.settled
    assert store.find_transaction(made.id) is not None


def test_a_failed_payment_stays_failed(store: SqlStore) -> None:
    made = submit(store)
    assert store.record_failed(made, None).status == "failed"
    again = store.record_settled(made, HASH, None)
    assert (again.status, again.settled) == ("failed", None)


def test_an_execution_keeps_its_first_metadata(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock, expose_execution_id=True)
    execution_id = store.begin_execution(resolve(store, "free_notes"))
    assert execution_id is not None
    found = store.find_execution(execution_id)
    assert found is not None
    assert found.metadata is None
    first, second = (
        ResourceExecutionMetadata(
            duration_ms=duration,
            response_content_type="text/plain",
            response_size_bytes=1,
            response_status=200,
        )
        for duration in (1, 2)
    )
    assert store.record_execution(found, first).metadata == first
    assert store.record_execution(found, second).metadata == first
    assert store.find_execution("rex_unknown") is None


def test_a_transaction_shows_the_resource_that_was_bought(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    made = authorize(store)
    clock.move(60)
    account = builtin_account()
    renamed = [
        one.model_copy(update={"name": "Another name"}) if one.key == "daily_report" else one
        for one in account.resources
    ]
    apply_account(database, store._stamps, account.model_copy(update={"resources": tuple(renamed)}))
    # A store that was opened before knows neither the new version nor what was bought of it.
    fresh = open_store_again(store)
    newer = authorize(fresh)
    for known in (store, fresh):
        found = [known.find_transaction(one.id) for one in (made, newer)]
        assert [one and one.context.listing.resource.name for one in found] == [
            "Daily report",
            "Another name",
        ]


def open_store_again(store: SqlStore) -> SqlStore:
    again = SqlStore(replace(store._shared, _memory={}), store.account)
    again.list_resources(again.now())
    return again


class TestSimulated:
    """Rules of simulated payments: by time, by reads."""

    @pytest.fixture
    def store(self, database: Database, clock: MovedClock) -> SqlStore:
        store = open_store(database, clock, is_simulated=True)
        account: Account = builtin_account()
        with database.write() as connection:
            set_up_ledger(connection, store.account, account)
        return store

    def test_the_most_specific_rule_counts(self, store: SqlStore) -> None:
        assert store.find_settlement_rule(authorize(store, OTHER)) == SettlementRule(after_seconds=2)
        ordinary = "0x00000000000000000000000000000000000000a1"
        assert store.find_settlement_rule(authorize(store, ordinary)) is None
        slow = authorize(store, ordinary, "slow_settlement")
        assert store.find_settlement_rule(slow) == SettlementRule(after_reads=2)

    def test_time_settles_each_payment_once(self, store: SqlStore, clock: MovedClock) -> None:
        rule = SettlementRule(after_seconds=2)
        first, second = (submit(store) for _ in range(2))
        assert first.status == "settling"
        due = clock.moment + timedelta(seconds=2)
        for made in (first, second):
            assert store.schedule(made, rule, due, clock.moment).status == "settling"
        assert store.take_due(clock.moment) == ()
        clock.move(3)
        taken = store.take_due(clock.moment)
        assert {one.transaction.id for one in taken} == {first.id, second.id}
        assert {(one.rule, one.at) for one in taken} == {(rule, due)}
        assert store.take_due(clock.moment) == ()
        settled = store.record_settled(taken[0].transaction, HASH, due)
        assert settled.settled is not None
        assert settled.settled.at == due
        clock.move(3600)  # whoever took the other one has died
        assert [one.transaction.id for one in store.take_due(clock.moment)] == [taken[1].transaction.id]

    def test_reads_settle(self, store: SqlStore, clock: MovedClock) -> None:
        rule = SettlementRule(after_reads=2, via="reconciling")
        made = store.schedule(submit(store), rule, None, clock.moment)
        assert made.status == "reconciling"
        assert store.count_read(made) is None
        assert store.count_read(made) == rule


def test_a_read_of_a_real_payment_settles_only_what_is_due(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    waiting = store.postpone(made, attempt, SettlementPending("reconciling"), None)
    assert waiting.status == "reconciling"
    assert store.count_read(waiting) is None
    clock.move(1)
    assert store.count_read(waiting) == SettlementRule(after_reads=0)
    assert settle(store).status == "succeeded"


def open_second_seller(store: SqlStore, database: Database, clock: MovedClock) -> SqlStore:
    """The store of another seller whose payments go to the same address."""
    stamps = Stamps(database, clock)
    account = builtin_account()
    for name in ("first", "second"):
        seller = account.seller.model_copy(update={"id": name})
        named = account.model_copy(update={"seller": seller})
        apply_account(database, stamps, named, environments=("test",))
    with database.read() as connection:
        [found] = [one for one in list_accounts(connection) if one.id != store.account.id]
    return SqlStore(Shared(database, stamps, random_id, random_challenge), found)


def test_an_authorization_pays_one_seller_only(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    # The chain takes it once, and would prove that one transfer to both of them.
    second = open_second_seller(store, database, clock)
    context, other = resolve(store), resolve(second)
    payment = sign(context)
    assert other.terms.pay_to == context.terms.pay_to
    assert store.authorize(context, payment, PaymentVerified(PAYER, 100)) is not None
    assert second.authorize(other, payment, PaymentVerified(PAYER, 100)) is None
    assert second.find_by_proof(payment.header) is None
    assert second.authorize(other, sign(other), PaymentVerified(PAYER, 100)) is not None


def test_simulated_ledgers_of_sellers_are_apart(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    second = open_second_seller(store, database, clock)
    context, other = resolve(store), resolve(second)
    payment = sign(context)
    assert store.authorize(context, payment, PaymentVerified(PAYER)) is not None
    assert second.authorize(other, payment, PaymentVerified(PAYER)) is not None
