"""Who runs and what is asked of them: one table of contestants, one of cases, one of targets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

App = Literal["bare", "by_hand", "faregate", "frozen", "inside", "inside_by_hand", "x402"]
Quantity = Literal["per_second", "cpu_us", "p99_ms"]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One app under one server. `journal` is faregate's, or what keeps all of the service inside."""

    name: str
    framework: Literal["asgi", "starlette", "fastapi", "flask", "django"]
    app: App
    server: Literal["uvicorn", "gthread"] = "uvicorn"
    journal: Literal["memory", "sqlite", "postgres", "redis"] = "memory"
    workers: int = 1
    on_one_processor: bool = False
    """Whether its threads are kept on the first processor."""

    @property
    def has_unique_proofs(self) -> bool:
        """Whether each request needs a proof of its own. x402 compares proofs with its instructions."""
        return self.app != "x402"

    @property
    def has_signed_proofs(self) -> bool:
        """Whether each proof must be signed by its payer."""
        return self.app.startswith("inside")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request, and the status that answers it.

    With `on_chain`, each calls a facilitator, and a node where it asks one (`chain.py`), in place of nginx.
    With `opens_first`, the load begins when all connections are open: uvloop accepts one in each turn of a
    busy loop, and those waits would be the slowest percent of a short round.
    """

    name: str
    path: str
    paid: bool
    status: int
    on_chain: bool = False
    opens_first: bool = False

    def calls(self, contestant: Contestant) -> int:
        """Return how many calls to the service one request must cost."""
        if contestant.app == "bare" or self is OPEN:
            return 0
        if contestant.app == "inside_by_hand":
            return 6
        # x402 writes its 402 by itself; the Merchant API is asked for each one.
        return 2 if self.paid else int(contestant.app != "x402")

    def calls_at_most(self, contestant: Contestant) -> int:
        """Return how many it may cost: a service asks the chain again where a payment is not final yet."""
        return 5 * self.calls(contestant) if contestant.app == "inside" else self.calls(contestant)


PAID = Kind("paid", "/report", paid=True, status=200)
STEADY = Kind("steady", "/report", paid=True, status=200, opens_first=True)
OPEN = Kind("open", "/health", paid=False, status=200)
ON_CHAIN = Kind("one-process", "/report", paid=True, status=200, on_chain=True)
UNPAID = Kind("unpaid", "/report", paid=False, status=402)

BARE = Contestant("FastAPI: bare app", "fastapi", "bare")
HAND = Contestant("FastAPI: two calls by hand", "fastapi", "by_hand")
FAST = Contestant("FastAPI: faregate", "fastapi", "faregate")
FROZEN = Contestant("FastAPI: faregate, frozen", "fastapi", "frozen")
X402 = Contestant("FastAPI: x402", "fastapi", "x402")
SQLITE = Contestant("FastAPI: faregate, SQLite", "fastapi", "faregate", journal="sqlite")
POSTGRES = Contestant("FastAPI: faregate, PostgreSQL", "fastapi", "faregate", journal="postgres")
REDIS = Contestant("FastAPI: faregate, Redis", "fastapi", "faregate", journal="redis")
HAND_TWO = Contestant("FastAPI: two calls by hand, 2 workers", "fastapi", "by_hand", workers=2)
SQLITE_TWO = Contestant(
    "FastAPI: faregate, SQLite, 2 workers", "fastapi", "faregate", journal="sqlite", workers=2
)
ASGI_BARE = Contestant("ASGI: bare app", "asgi", "bare")
ASGI_HAND = Contestant("ASGI: two calls by hand", "asgi", "by_hand")
ASGI_FAST = Contestant("ASGI: faregate", "asgi", "faregate")
STARLETTE_BARE = Contestant("Starlette: bare app", "starlette", "bare")
STARLETTE_HAND = Contestant("Starlette: two calls by hand", "starlette", "by_hand")
STARLETTE_FAST = Contestant("Starlette: faregate", "starlette", "faregate")
FLASK_BARE = Contestant("Flask: bare app", "flask", "bare", "gthread")
FLASK_HAND = Contestant("Flask: two calls by hand", "flask", "by_hand", "gthread")
FLASK_FAST = Contestant("Flask: faregate", "flask", "faregate", "gthread")
FLASK_SQLITE = Contestant("Flask: faregate, SQLite", "flask", "faregate", "gthread", journal="sqlite")
FLASK_SQLITE_KEPT = replace(FLASK_SQLITE, name=f"{FLASK_SQLITE.name}, one processor", on_one_processor=True)
SQLITE_KEPT = replace(SQLITE, name=f"{SQLITE.name}, one processor", on_one_processor=True)
HAND_SQLITE = Contestant("FastAPI: calls and writes by hand, SQLite", "fastapi", "by_hand", journal="sqlite")
HAND_POSTGRES = Contestant(
    "FastAPI: calls and writes by hand, PostgreSQL", "fastapi", "by_hand", journal="postgres"
)
HAND_REDIS = Contestant("FastAPI: calls and writes by hand, Redis", "fastapi", "by_hand", journal="redis")
FLASK_HAND_SQLITE = Contestant(
    "Flask: calls and writes by hand, SQLite", "flask", "by_hand", "gthread", journal="sqlite"
)
FLASK_X402 = Contestant("Flask: x402", "flask", "x402", "gthread")
FLASK_X402_KEPT = replace(FLASK_X402, name=f"{FLASK_X402.name}, one processor", on_one_processor=True)
INSIDE = Contestant("FastAPI: faregate, all in SQLite", "fastapi", "inside", journal="sqlite")
INSIDE_POSTGRES = Contestant("FastAPI: faregate, all in PostgreSQL", "fastapi", "inside", journal="postgres")
FLASK_INSIDE = Contestant("Flask: faregate, all in SQLite", "flask", "inside", "gthread", journal="sqlite")
FLASK_INSIDE_POSTGRES = Contestant(
    "Flask: faregate, all in PostgreSQL", "flask", "inside", "gthread", journal="postgres"
)
INSIDE_HAND = Contestant(
    "FastAPI: calls and writes by hand, SQLite", "fastapi", "inside_by_hand", journal="sqlite"
)
INSIDE_HAND_POSTGRES = Contestant(
    "FastAPI: calls and writes by hand, PostgreSQL", "fastapi", "inside_by_hand", journal="postgres"
)
FLASK_INSIDE_HAND = Contestant(
    "Flask: calls and writes by hand, SQLite", "flask", "inside_by_hand", "gthread", journal="sqlite"
)
FLASK_INSIDE_HAND_POSTGRES = Contestant(
    "Flask: calls and writes by hand, PostgreSQL", "flask", "inside_by_hand", "gthread", journal="postgres"
)
DJANGO_BARE = Contestant("Django: bare app", "django", "bare", "gthread")
DJANGO_HAND = Contestant("Django: two calls by hand", "django", "by_hand", "gthread")
DJANGO_FAST = Contestant("Django: faregate", "django", "faregate", "gthread")
DJANGO_ASGI_BARE = Contestant("Django, ASGI: bare app", "django", "bare")
DJANGO_ASGI_HAND = Contestant("Django, ASGI: two calls by hand", "django", "by_hand")
DJANGO_ASGI_FAST = Contestant("Django, ASGI: faregate", "django", "faregate")


@dataclass(frozen=True, slots=True)
class Case:
    """One table. `against` heads the columns of ratios: to a contestant, or an app of the same framework."""

    name: str
    title: str
    kind: Kind
    payers: tuple[int, ...]
    contestants: tuple[Contestant, ...]
    against: Mapping[str, Contestant | App]

    def find_base(self, head: str, contestant: Contestant) -> Contestant | None:
        """Return whom this contestant is compared with in this column; None if nobody."""
        wanted = self.against[head]
        if isinstance(wanted, Contestant):
            return wanted
        place = (contestant.framework, contestant.server, wanted)
        candidates = [one for one in self.contestants if (one.framework, one.server, one.app) == place]
        same = (candidate for candidate in candidates if candidate.journal == contestant.journal)
        return next(same, candidates[0] if candidates else None)


CASES = (
    Case(
        "paid",
        "Paid requests",
        PAID,
        (1, 16, 64),
        (BARE, HAND, FAST, X402),
        {"two calls": HAND, "x402": X402},
    ),
    Case(
        "latency",
        "Latency of paid requests, all connections open",
        STEADY,
        (16, 64),
        (HAND, FAST, FROZEN, HAND_SQLITE, SQLITE, X402),
        {"two calls": HAND, "x402": X402},
    ),
    Case(
        "journals",
        "Paid requests with each journal",
        PAID,
        (1, 16, 64),
        (FAST, SQLITE, POSTGRES, REDIS, X402),
        {"memory": FAST, "x402": X402},
    ),
    Case(
        "floors",
        "Paid requests of one payer, beside the least that a durable journal costs",
        PAID,
        (1,),
        (
            SQLITE,
            HAND_SQLITE,
            POSTGRES,
            HAND_POSTGRES,
            REDIS,
            HAND_REDIS,
            X402,
            FLASK_SQLITE,
            FLASK_HAND_SQLITE,
            FLASK_X402,
        ),
        {"calls and writes": "by_hand", "x402": "x402"},
    ),
    Case(
        "floors-many",
        "Paid requests of many payers, beside the least that SQLite costs",
        PAID,
        (16, 64),
        (SQLITE, HAND_SQLITE, X402, FLASK_SQLITE, FLASK_HAND_SQLITE, FLASK_X402),
        {"calls and writes": "by_hand", "x402": "x402"},
    ),
    Case(
        "frameworks",
        "Paid requests with each ASGI framework",
        PAID,
        (16,),
        (ASGI_BARE, ASGI_HAND, ASGI_FAST, STARLETTE_BARE, STARLETTE_HAND, STARLETTE_FAST, BARE, HAND, FAST),
        {"two calls": "by_hand", "bare app": "bare"},
    ),
    Case(
        "flask",
        "Paid requests with Flask (gunicorn, gthread, 16 threads)",
        PAID,
        (1, 16, 64),
        (FLASK_BARE, FLASK_HAND, FLASK_FAST, FLASK_SQLITE, FLASK_X402),
        {"two calls": FLASK_HAND, "x402": FLASK_X402},
    ),
    Case(
        "django",
        "Paid requests with Django (gunicorn, gthread, 16 threads; and uvicorn)",
        PAID,
        (16,),
        (
            DJANGO_BARE,
            DJANGO_HAND,
            DJANGO_FAST,
            DJANGO_ASGI_BARE,
            DJANGO_ASGI_HAND,
            DJANGO_ASGI_FAST,
            FLASK_X402,
        ),
        {"two calls": "by_hand", "x402 on Flask": FLASK_X402},
    ),
    Case(
        "one-process",
        "Paid requests with the service inside the process",
        ON_CHAIN,
        (1, 16, 64),
        (
            INSIDE,
            INSIDE_HAND,
            INSIDE_POSTGRES,
            INSIDE_HAND_POSTGRES,
            X402,
            FLASK_INSIDE,
            FLASK_INSIDE_HAND,
            FLASK_INSIDE_POSTGRES,
            FLASK_INSIDE_HAND_POSTGRES,
            FLASK_X402,
        ),
        {"calls and writes": "inside_by_hand", "x402": "x402"},
    ),
    Case(
        "workers",
        "Paid requests with one worker and with two",
        PAID,
        (64,),
        (HAND, HAND_TWO, SQLITE, SQLITE_TWO),
        {"two calls": HAND, "SQLite, one worker": SQLITE},
    ),
    Case(
        "processors",
        "Paid requests of one worker, on both processors and on one",
        PAID,
        (16,),
        (SQLITE, SQLITE_KEPT, X402, FLASK_SQLITE, FLASK_SQLITE_KEPT, FLASK_X402, FLASK_X402_KEPT),
        {"x402": "x402"},
    ),
    Case(
        "unprotected",
        "A route that is not for sale",
        OPEN,
        (16,),
        (BARE, HAND, FAST, X402),
        {"bare app": BARE, "x402": X402},
    ),
    Case(
        "unpaid",
        "A paid route without a payment (402)",
        UNPAID,
        (16,),
        (HAND, FAST, X402, FLASK_HAND, FLASK_FAST, FLASK_X402),
        {"one call by hand": "by_hand", "x402": "x402"},
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is promised: `quantity` of one contestant over that of another, at each number of payers.

    With `is_difference` the bound is on the difference instead, in the quantity's own unit.
    """

    what: str
    of: Contestant
    against: Contestant
    bounds: Mapping[int, float]
    quantity: Quantity = "per_second"
    kind: Kind = PAID
    is_difference: bool = False

    @property
    def is_minimum(self) -> bool:
        """Throughput should be high; time should be short."""
        return self.quantity == "per_second"


TARGETS = (
    Target("memory journal, against x402", FAST, X402, {1: 3, 16: 10, 64: 11}),
    Target("p99, against two calls by hand", FAST, HAND, {64: 2}, "p99_ms", STEADY),
    Target("p99 with frozen objects, against two calls by hand", FROZEN, HAND, {64: 2}, "p99_ms", STEADY),
    Target("memory journal, against two calls by hand", FAST, HAND, {1: 0.75, 16: 0.75, 64: 0.75}),
    Target("CPU on FastAPI, against two calls by hand", FAST, HAND, {1: 1.55, 16: 1.55, 64: 1.55}, "cpu_us"),
    Target(
        "CPU on Starlette, against two calls by hand", STARLETTE_FAST, STARLETTE_HAND, {16: 1.4}, "cpu_us"
    ),
    Target("SQLite, against memory", SQLITE, FAST, {1: 0.4, 16: 0.6, 64: 0.6}),
    Target(
        "CPU of the SQLite journal, us a sale",
        SQLITE,
        FAST,
        {1: 450, 16: 450, 64: 450},
        "cpu_us",
        is_difference=True,
    ),
    Target("SQLite, against x402", SQLITE, X402, {1: 1.3, 16: 6, 64: 8}),
    Target("PostgreSQL, against memory", POSTGRES, FAST, {16: 0.5, 64: 0.5}),
    Target("Redis, against memory", REDIS, FAST, {16: 0.5, 64: 0.5}),
    Target("Flask, against x402", FLASK_FAST, FLASK_X402, {1: 4, 16: 4, 64: 4}),
    Target("Flask, against two calls by hand", FLASK_FAST, FLASK_HAND, {1: 0.75, 16: 0.75, 64: 0.75}),
    Target("Flask with SQLite, against memory", FLASK_SQLITE, FLASK_FAST, {1: 0.4, 16: 0.6, 64: 0.6}),
    Target("Django, against x402 on Flask", DJANGO_FAST, FLASK_X402, {16: 4}),
    Target("Django, against two calls by hand", DJANGO_FAST, DJANGO_HAND, {16: 0.75}),
    Target("Django under ASGI, against x402 on Flask", DJANGO_ASGI_FAST, FLASK_X402, {16: 4}),
    Target("Django under ASGI, against two calls by hand", DJANGO_ASGI_FAST, DJANGO_ASGI_HAND, {16: 0.75}),
    Target("two workers on one SQLite file, against one", SQLITE_TWO, SQLITE, {64: 1.8}),
    Target("service inside, SQLite, against x402", INSIDE, X402, {1: 1, 16: 1.5, 64: 2}, kind=ON_CHAIN),
    Target("CPU of an unprotected route, against bare", FAST, BARE, {16: 1.03}, "cpu_us", OPEN),
    Target("402 for an unpaid request, against one bare call", FAST, HAND, {16: 0.7}, kind=UNPAID),
)
