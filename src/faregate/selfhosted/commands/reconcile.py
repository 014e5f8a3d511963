"""`faregate service reconcile`: compare the books with the chain. It reads only, and changes nothing."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from faregate.errors import ConfigurationError
from faregate.selfhosted.database.reports import list_pending_payments
from faregate.selfhosted.runtime import open_runtime
from faregate.selfhosted.settings import Settings, read_settings
from faregate.service.payments import PaymentRefused, PaymentSettled, SettlementPending, SettlementResult
from faregate.service.records import FINAL, Transaction

_TOLD_EVERY = 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """One payment in the books and on the chain. `is_different`: a person must find out why."""

    transaction: str
    books: str
    chain: str
    is_different: bool

    def __str__(self) -> str:
        mark = "DIFFERENT" if self.is_different else "ok"
        return f"{mark:<10}{self.transaction}: {self.books} in the books; {self.chain}"


def run_reconcile(arguments: Namespace) -> int:
    """Print a line for each payment; return 1 if books and chain differ."""
    settings = read_settings(arguments)
    different = 0
    for count, found in enumerate(_compare(settings, arguments.id), 1):
        different += found.is_different
        print(json.dumps(asdict(found)) if arguments.json else found, flush=True)
        if count % _TOLD_EVERY == 0:
            print(f"{count} payments compared ...", file=sys.stderr, flush=True)
    if not arguments.json:
        print(f"{different} different" if different else "books and chain agree")
    return int(different > 0)


def _compare(settings: Settings, transaction_id: str | None) -> Iterator[Comparison]:
    with open_runtime(settings) as runtime:
        found = False
        for store in runtime.backends.open_stores():
            backend, account = runtime.backends.build_backend(store), store.account.id
            ids = (
                (transaction_id,)
                if transaction_id
                else list_pending_payments(runtime.books.database, account)
            )
            for one in ids:
                transaction = store.find_transaction(one)
                if transaction is None:
                    continue
                found = True
                attempt = store.read_attempt(transaction)
                seen = backend.payments.look(transaction.payment, transaction.context.terms, attempt)
                yield compare(transaction, seen)
        if transaction_id is not None and not found:
            raise ConfigurationError(f"There is no transaction {transaction_id} in this database.")


def compare(transaction: Transaction, seen: SettlementResult) -> Comparison:
    """Compare a payment with what its chain proves."""
    books = transaction.status
    match seen:
        case PaymentSettled(transaction_hash=found):
            chain = f"settled on the chain by {found}"
        case PaymentRefused(reason=reason):
            chain = f"can never settle: {reason}"
        case SettlementPending():
            chain = "not proven by the chain"
    return Comparison(transaction.id, books, chain, _is_different(transaction, seen))


def _is_different(transaction: Transaction, seen: SettlementResult) -> bool:
    settled = transaction.settled
    if settled is not None:
        return not isinstance(seen, PaymentSettled) or seen.transaction_hash != settled.transaction_hash
    # What is open will be ended by a worker. What was called failed must never have been charged.
    return isinstance(seen, PaymentSettled) and (
        transaction.status in FINAL or transaction.submitted_at is None
    )
