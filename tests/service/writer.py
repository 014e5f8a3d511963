"""A process of its own that writes: `python -m tests.service.writer <url> <what> ...`."""

import sys
import time

from faregate.rules.payments import PaymentVerified
from faregate.service.database.accounts import list_accounts
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared
from faregate.system import random_challenge, random_id, system_clock
from tests.service import sales

_FEWEST = 15
"""Sales of one process: four of them make more than the 50 that the test wants."""


def connect(url: str) -> SqlStore:
    database = Database(url)
    with database.read() as connection:
        account = list_accounts(connection)[0]
    return SqlStore(Shared(database, Stamps(database, system_clock), random_id, random_challenge), account)


def authorize_same(store: SqlStore, count: int) -> None:
    """Print the ids of the transactions that were made, for the same `count` payments in every process."""
    context = sales.resolve(store)
    for number in range(count):
        payment = sales.sign(context, nonce=f"0x{number:064x}", header=f"proof {number}")
        made = store.authorize(context, payment, PaymentVerified(sales.PAYER))
        if made is not None:
            print(made.id, flush=True)


def sell(store: SqlStore, seconds: float) -> None:
    """Make sales of every kind for so long, and on a busy machine until there are some; print how many."""
    end, made = time.monotonic() + seconds, 0
    while time.monotonic() < end or (made < _FEWEST and time.monotonic() < end + 30):
        sales.settle(store)
        refused = sales.authorize(store)
        store.record_outcome(refused, sales.failed(refused))
        sales.submit(store)
        made += 3
    print(made, flush=True)


def main() -> None:
    url, what, number = sys.argv[1:]
    store = connect(url)
    print("ready", flush=True)
    sys.stdin.readline()
    if what == "authorize":
        authorize_same(store, int(number))
    else:
        sell(store, float(number))


if __name__ == "__main__":
    main()
