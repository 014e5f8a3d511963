"""`Emulator`: the service with a clock, an id source, a ledger, faults and a record of its calls."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, Unpack

from faregate.core.models import Response, WireRequest
from faregate.emulator import assertions, settlement_control
from faregate.emulator.assertions import ReceivedResponse
from faregate.emulator.calls import CallLog, RecordedCall
from faregate.emulator.clock import EmulatorClock
from faregate.emulator.delivery import Delivery, add_marker
from faregate.emulator.expectations import CallRecorder, Expectation, Match
from faregate.emulator.faults import CLEAN, Faults
from faregate.emulator.faults.apply import deliver_with_faults
from faregate.emulator.ledger import SimulatedLedger, build_ledger
from faregate.emulator.persistence.dump import EmulatorCopy, copy_emulator, dump_document, dump_surroundings
from faregate.emulator.persistence.load import load_environments, load_ledger, load_surroundings
from faregate.emulator.persistence.schema import StateDocument, read_document
from faregate.emulator.snapshots import Snapshots, StateSnapshot
from faregate.errors import ConfigurationError
from faregate.merchant.types import MAX_ATOMIC
from faregate.rules.account import (
    Account,
    Revision,
    SettlementRule,
    find_address_fault,
    find_price_fault,
)
from faregate.rules.app import Service
from faregate.rules.builtin_account import builtin_account, with_tenant_keys
from faregate.rules.catalog import Listing, PublishedRevision, declare_price
from faregate.rules.clock import Clock
from faregate.rules.ids import CountedIds, Ids, RewindableIds, SeededChallenges, SeededIds
from faregate.rules.memory_store import MemoryStore
from faregate.rules.payments import Ledger
from faregate.rules.settlement import settle_due
from faregate.system import random_challenge, random_id, system_clock
from faregate.x402.declared_prices import DeclaredPrice
from faregate.x402.tokens import TOKENS, Environment, SettlementAsset

T = TypeVar("T")


class Emulator:
    """The Merchant API in this process, for one account. Every mount of an emulator shows the same state.

    `seed` makes ids and challenges repeatable; otherwise they come from `ids` or are random. `ledger`
    replaces the simulated ledger. `expose_execution_id` adds `resource_execution_id` to a free access.
    Live keys are answered 401 unless `allow_live` is set. `mode` is the fault mode to start with.

    `emulator.faults.add(Fault(kind="cut", operation="complete"))` switches a fault on. `deliver` then
    returns how the response ends. `emulator/asgi.py` carries that out: it cuts the bytes and closes the
    connection. `emulator/transports.py` raises the error that the client would.
    """

    def __init__(
        self,
        account: Account | None = None,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        seed: int | str | None = None,
        ledger: Ledger | None = None,
        expose_execution_id: bool = False,
        allow_live: bool = False,
        mode: str = CLEAN,
    ) -> None:
        if ids is not None and seed is not None:
            raise ConfigurationError("pass either ids or seed, not both")
        self.account = account or builtin_account()
        self.clock = clock if isinstance(clock, EmulatorClock) else EmulatorClock(clock or system_clock)
        self.ledger: Ledger = ledger or build_ledger(self.account)
        self.faults = Faults(mode)
        self._given_ledger = ledger
        self._like = partial(
            Emulator, expose_execution_id=expose_execution_id, allow_live=allow_live, mode=mode
        )
        self._ids = SeededIds(seed) if seed is not None else ids or random_id
        self._challenges = (
            SeededChallenges(self._ids.seed) if isinstance(self._ids, CountedIds) else random_challenge
        )
        self._new_service = partial(
            Service,
            self.account,
            clock=self.clock,
            ids=self._ids,
            challenge=self._challenges,
            ledger=self.ledger,
            expose_execution_id=expose_execution_id,
            allow_live=allow_live,
        )
        # One lock for the service and the record of its calls: a call and its record are one step.
        self._lock = Lock()
        self._service = self._new_service()
        self._recorder = CallRecorder(self._lock)
        self._snapshots = Snapshots()
        self._beginning = dump_surroundings(self._copy(self._service))

    def like(self, name: str, *, account: Account | None = None, seed: int | str | None = None) -> "Emulator":
        """Build an emulator with the same settings for the keys of tenant `name`.

        Its resources and payers are the same unless `account` is given. Time, ids and ledger are its own;
        `seed` is for its ids.
        """
        ids = self._ids.like(name) if isinstance(self._ids, RewindableIds) else self._ids
        return self._like(
            with_tenant_keys(account or self.account, name),
            clock=self.clock.copy(),
            ids=ids if seed is None else SeededIds(seed),
            ledger=self._copy_ledger(),
        )

    # Calls to the service

    def deliver(self, request: WireRequest) -> Delivery:
        """Answer one call, one at a time, and say how the answer travels. Never raises."""
        with self._lock:
            call = self._recorder.log.add_call(request, self.clock(), self._service)
            # Skip fault matching when there are no rules: it parses the proof and the body.
            if self.faults.rules:
                delivery, call.fault = deliver_with_faults(self.faults, self._service, request)
            else:
                delivery = Delivery(self._service.respond(request))
            call.delivery = Delivery(add_marker(delivery.response), delivery.delay, delivery.ending)
            self._recorder.notify()
            return call.delivery

    def respond(self, request: WireRequest) -> Response:
        """Return the service's response to this call, however it would travel. Never raises."""
        return self.deliver(request).response

    def read_state(self, read: Callable[[Service, CallLog], T]) -> T:
        """Return what `read` reads from the current state, after every payment that is due has settled."""
        with self._lock:
            for store in self._service.environments.values():
                settle_due(store.clock.now(), store.deps)
            return read(self._service, self._recorder.log)

    def mode(self, name: str) -> None:
        """Replace the faults by those of this mode; "clean" has none. `ConfigurationError` if unknown."""
        self.faults.set_mode(name)

    # Recorded calls

    def calls(self, operation: str | None = None, **match: Unpack[Match]) -> list[RecordedCall]:
        """List the matching calls among the last 10,000, oldest first: `calls("complete", status=200)`.

        `calls(transaction="txn_...")` includes the access that led to the transaction.
        """
        return self._recorder.find(operation, match)

    def wait_for(
        self, operation: str | None = None, *, count: int = 1, timeout: float = 5.0, **match: Unpack[Match]
    ) -> list[RecordedCall]:
        """Block until `count` calls match, earlier ones included, and return them.

        `NoSuchCall` after `timeout` real seconds, whatever the emulator's clock shows.
        """
        return self._recorder.wait(operation, match, count, timeout)

    async def await_for(
        self, operation: str | None = None, *, count: int = 1, timeout: float = 5.0, **match: Unpack[Match]
    ) -> list[RecordedCall]:
        """Await `count` matching calls, under asyncio or trio; otherwise like `wait_for`."""
        return await self._recorder.wait_async(operation, match, count, timeout)

    def expect(self, operation: str, *, times: int | None = 1, **match: Unpack[Match]) -> Expectation:
        """Expect a call `times` times; None is any number.

        `assert_expected` checks it against all calls, a `strict()` block against the calls in the block.
        """
        return self._recorder.expect(operation, match, times)

    def assert_expected(self, *, strict: bool = False) -> None:
        """Raise `ExpectationFailed` if expected calls are missing or came too often; then forget them.

        With `strict`, also for every call without an expectation, except reads of the contracts document.
        The pytest fixture calls this at the end of each test.
        """
        self._recorder.assert_expected(strict)

    def strict(self) -> AbstractContextManager[None]:
        """Require every call in this block to be expected, before or after it comes.

        Nothing is checked if the block raises.
        """
        return self._recorder.strict()

    # Invariants of any seller

    def assert_all_settled(self) -> None:
        """Raise `InvariantBroken` if a transaction is neither failed nor succeeded.

        A payment that settles only when it is read stays open until then: let the seller sweep first.
        """
        assertions.raise_violations(
            self.read_state(lambda service, _: list(assertions.find_open_transactions(service)))
        )

    def assert_no_double_charge(self, answers: Iterable[ReceivedResponse] | None = None) -> None:
        """Raise `InvariantBroken` if a payer paid twice for one thing.

        With the `answers` that payers got this is certain: they know what was one purchase. Without them
        the service sees only two charges of one payer for one URL, the second authorized before the seller
        knew how the first had ended. It does not see the query, so it reports a payer who buys one path
        twice at once, and it misses a payer who is asked to pay again later.
        """
        if answers is None:
            violations = self.read_state(
                lambda service, log: list(assertions.find_overlapping_charges(service, log))
            )
        else:
            received = list(answers)
            violations = self.read_state(
                lambda service, _: list(assertions.find_double_charges(service, received))
            )
        assertions.raise_violations(violations)

    def assert_released_only_if_completed(self, answers: Iterable[ReceivedResponse]) -> None:
        """Raise `InvariantBroken` if a result left before the service proved its payment.

        Before each 2xx with a body that a payer got for a proof, the seller must have learned it: by
        complete with `PAYMENT-RESPONSE` for that proof, or by access that the resource is free. Results
        given without any proof are not seen, nor those of requests that were never answered 402.
        """
        received = list(answers)
        assertions.raise_violations(
            self.read_state(
                lambda service, log: list(assertions.find_unpaid_releases(service, log, received))
            )
        )

    def check_invariants(self, answers: Iterable[ReceivedResponse] | None = None) -> None:
        """Check all invariants; that of released results only if payers' `answers` are given."""
        received = None if answers is None else list(answers)
        self.assert_no_double_charge(received)
        if received is not None:
            self.assert_released_only_if_completed(received)
        self.assert_all_settled()

    # State as a whole

    def export(self) -> dict[str, Any]:
        """Return the state document as plain JSON values. It contains payers' signatures."""
        document: dict[str, Any] = json.loads("".join(self.iter_export()))
        return document

    def iter_export(self) -> Iterator[str]:
        """Yield the state document as text; only the copy is made under the lock."""
        return dump_document(self.read_state(lambda service, _: self._copy(service)))

    def load_state(self, document: StateDocument | Mapping[str, Any] | str | bytes) -> None:
        """Replace the whole state by this document, the clock too (see `persistence/schema.py`).

        What the document leaves out is as it was at the start. All calls so far are marked `undone`.
        `ConfigurationError` names the place of what does not fit; then nothing has changed.
        """
        tenants_state = read_document(document)
        with self._lock:
            self._load(tenants_state)
            self._recorder.log.rewind((0, ()))

    def reset(self) -> None:
        """Return to the initial state: clock, ids and faults too. Calls and snapshots are forgotten."""
        with self._lock:
            self._load(self._beginning)
            self._recorder.clear()
            self._snapshots.clear()

    def snapshot(self, name: str | None = None) -> str:
        """Save the current state under this name, or under a new one, and return the name."""
        # In one read, so that no call comes between the state and the position in the log.
        copy, mark = self.read_state(lambda service, log: (self._copy(service), log.mark()))
        taken = StateSnapshot("".join(dump_document(copy)), mark)
        with self._lock:
            return self._snapshots.put(name, taken)

    @property
    def snapshots(self) -> list[str]:
        """The names of all snapshots, the latest last."""
        return self._snapshots.names

    def restore(self, name: str) -> None:
        """Return to a snapshot: clock, ids, balances, transactions and faults.

        Recorded calls stay; those after the snapshot are marked `undone`, because with a seed the ids in
        them are given out again.
        """
        with self._lock:
            taken = self._snapshots.get(name)
            self._load(read_document(taken.document))
            self._recorder.log.rewind(taken.mark)

    # Settlement

    def settle_after(self, target: str, settlement_rule: SettlementRule | None) -> None:
        """Set how payments settle from now on; None removes the rule. See `settlement_control.settle_after`.

        `target` is a transaction id, a payer's address, a resource key or `*`. The most specific rule wins.
        """
        with self._lock:
            for store in self._find_environments(target):
                settlement_control.settle_after(store, target, settlement_rule)

    def settle(self, transaction_id: str) -> None:
        """Settle a pending transaction now; `ConfigurationError` if it is not pending."""
        with self._lock:
            for store in self._find_environments(transaction_id):
                settlement_control.settle(store, transaction_id)

    def fail(self, transaction_id: str) -> None:
        """Let the payment fail; `ConfigurationError` if the transaction is final."""
        with self._lock:
            for store in self._find_environments(transaction_id):
                settlement_control.fail(store, transaction_id)

    def balance(
        self, address: str, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> int:
        """Return the balance of the address on the simulated ledger, in atomic units."""
        return self._require_ledger().balance(TOKENS[environment, asset], address)

    def set_balance(
        self, address: str, balance: int, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> None:
        """Set the balance of the address on the simulated ledger, in atomic units."""
        if (fault := find_address_fault(address)) is not None:
            raise ConfigurationError(f"{address!r} {fault}")
        if not 0 <= balance <= MAX_ATOMIC:
            raise ConfigurationError(f"a balance is 0 to {MAX_ATOMIC} atomic units, not {balance}")
        with self._lock:
            self._require_ledger().set_balance(TOKENS[environment, asset], address, balance)

    # The seller's catalog

    def revision_id(self, key: str, environment: Environment = "test") -> str:
        """Return the id of the active revision of resource `key`."""
        return self._find_listing(key, environment).active.id

    def resource_id(self, key: str, environment: Environment = "test") -> str:
        """Return the id of resource `key`."""
        return self._find_listing(key, environment).id

    def require_payment(self, key: str, required: bool = True) -> None:
        """Set whether the resource must be paid for; False makes it free."""
        with self._editing(key) as stores:
            for store in stores:
                _check_price(key, store.catalog.listings[key].active.rules, required=required)
            for store in stores:
                store.catalog.edit(key, store.clock.edit(), partial(replace, require_payment=required))

    def edit_resource(
        self,
        key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        image_url: str | None = None,
    ) -> None:
        """Edit how the resource is shown; None leaves a field as it is.

        `ConfigurationError` if there is no such resource or a field breaks a rule; then nothing has changed.
        """
        fields = {"name": name, "description": description, "image_url": image_url}
        update = {field: value for field, value in fields.items() if value is not None}
        with self._editing(key) as stores:
            resources = [store.catalog.listings[key].resource.with_appearance(**update) for store in stores]
            for store, edited in zip(stores, resources, strict=True):
                store.catalog.edit(key, store.clock.edit(), partial(replace, resource=edited))

    def archive(self, key: str) -> None:
        """Archive the resource: access to it is answered 422 from now on."""
        with self._editing(key) as stores:
            for store in stores:
                moment = store.clock.edit()
                store.catalog.edit(key, moment, partial(replace, archived_at=moment))

    def publish(self, key: str, revision: Revision) -> None:
        """Publish a new active revision in both environments; the previous one can no longer be bought."""
        with self._editing(key) as stores:
            for store in stores:
                _check_price(key, revision, required=store.catalog.listings[key].require_payment)
            for store in stores:
                store.catalog.publish(key, revision, store.clock.edit())

    def publish_prices(self, prices: Mapping[str, DeclaredPrice]) -> dict[str, PublishedRevision]:
        """Ask these prices from now on, as code that sells with `emulator:` declares them.

        Returns the revisions in test. A resource that the account lacks is added.
        """
        with self._lock:
            for store in self._service.environments.values():
                for key, price in prices.items():
                    declare_price(store.catalog, key, price, store.clock.edit)
            listings = self._service.environments["test"].catalog.listings
            return {key: listings[key].active for key in prices}

    def _load(self, document: StateDocument) -> None:
        # Loaded into a new service first: if the document does not fit, the current state is untouched.
        service = self._new_service()
        load_environments(service.environments, document)
        load_surroundings(document, self._beginning, self.clock, self._ids, self.ledger, self.faults)
        if document.challenges is not None and isinstance(self._challenges, SeededChallenges):
            self._challenges.restore(document.challenges)
        self._service = service

    def _copy(self, service: Service) -> EmulatorCopy:
        return copy_emulator(
            service.environments, self.clock, self._ids, self._challenges, self.ledger, self.faults
        )

    def _copy_ledger(self) -> Ledger | None:
        """Copy a ledger that was given, as it was at the start; another backend is shared."""
        if not isinstance(self._given_ledger, SimulatedLedger):
            return self._given_ledger
        copy = self._given_ledger.copy()
        load_ledger(copy, self._beginning.ledger)
        return copy

    def _require_ledger(self) -> SimulatedLedger:
        if not isinstance(self.ledger, SimulatedLedger):
            raise ConfigurationError("only the simulated ledger has balances, and ledger= replaced it")
        return self.ledger

    def _find_listing(self, key: str, environment: Environment) -> Listing:
        listing = self._service.environments[environment].catalog.listings.get(key)
        if listing is None:
            raise ConfigurationError(f"there is no resource {key!r} in {environment}")
        return listing

    def _find_environments(self, target: str) -> list[MemoryStore]:
        """Find the environments that know the target; if none does, test, which then reports the error."""
        stores = [
            store
            for store in self._service.environments.values()
            if settlement_control.has_target(store, target)
        ]
        return stores or [self._service.environments["test"]]

    @contextmanager
    def _editing(self, key: str) -> Generator[list[MemoryStore]]:
        """Yield the environments with this resource, under the lock; `ConfigurationError` if none has it."""
        with self._lock:
            stores = [store for store in self._service.environments.values() if key in store.catalog.listings]
            if not stores:
                raise ConfigurationError(f"there is no resource {key!r}")
            yield stores


def _check_price(key: str, revision: Revision, *, required: bool) -> None:
    if (fault := find_price_fault(key, revision, required=required)) is not None:
        raise ConfigurationError(fault)
