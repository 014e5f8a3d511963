"""One run: sell, kill, make trouble; heal everything; wait until all has ended; compare."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from faregate.service.database.engine import Database
from faregate.service.database.reorg_records import summarize_reorgs
from tests.crash.service.application import APPLICATIONS, OWN_POINTS, ApplicationName
from tests.crash.service.audit import Audit, run_audit
from tests.crash.service.buyers import Buyers
from tests.crash.service.checker import Checker, wait_for_transfers
from tests.crash.service.child import Order
from tests.crash.service.environment import Environment, open_environment
from tests.crash.service.points import list_points
from tests.crash.service.processes import Plan, Slot
from tests.crash.service.sellers import KINDS, Sellers
from tests.crash.service.trouble import Trouble
from tests.support.waiting import eventually

_ROLES: Final = (("serve", None), ("work", None), ("serve", None), ("work", None))
_ROLES_INSIDE: Final = (("work", None), *(("sell", application) for application in APPLICATIONS))
_HEALING_SECONDS: Final = 90.0
_FEWEST_PAYMENTS: Final = 8
FEWEST_DEATHS: Final = 5
_MORE_SECONDS: Final = 60.0
_FINALITY_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Options:
    """What to run: at most `seconds`, or until every one of `points` had `times` deaths; none are all."""

    times: int
    seconds: float
    seed: int = 1
    sellers: int = 12
    naive: bool = False
    kinds: Sequence[str] = tuple(KINDS)
    points: Sequence[str] = ()
    troubles: Sequence[str] = ()
    """By turns; none are all, by chance."""


Told = Callable[[str, float], None]


def run_campaign(database: str, payments: str, options: Options, folder: Path, tell: Told) -> dict[str, Any]:
    """Run one campaign; `tell` hears how far it is. Return what was found."""
    with open_environment(database, payments, folder, options.seed) as environment:
        return _Run(environment, payments, options, folder).run(f"{database}/{payments}", tell)


class _Run:
    def __init__(self, environment: Environment, payments: str, options: Options, folder: Path) -> None:
        self._environment, self._options, self._folder = environment, options, folder
        points = list_points("direct" if payments == "direct" else "facilitator")
        if payments == "inside":
            points += [point for point in OWN_POINTS if point not in points]
        points = [point for point in points if not options.points or point in options.points]
        self._points = points
        self._loose: dict[str, int] = {}
        self._plan = Plan(points, options.times, options.seed)
        # An older copy of the database has an older journal, which may have work done again.
        avoids = ("restored",) if payments == "inside" else ()
        self._trouble = Trouble(environment, options.seed, options.troubles, avoids)
        kind = Buyers if payments == "inside" else Sellers
        self._sellers = kind(environment, options.sellers, options.seed, options.kinds)
        self._sellers.folder = folder
        self._slots = [
            Slot(self._make_order(*role, number, folder), environment, self._plan, options.seed + number)
            for number, role in enumerate(_ROLES_INSIDE if payments == "inside" else _ROLES)
        ]

    def _make_order(self, role: Any, application: ApplicationName | None, number: int, folder: Path) -> Order:
        settings = {**self._environment.settings, "workers": 1 if role == "serve" else 2}
        log = str(folder / f"{application or role}-{number}.log")
        return Order(role, settings, log, naive=self._options.naive, application=application)

    def run(self, name: str, tell: Told) -> dict[str, Any]:
        starts = [slot.start for slot in self._slots]
        for start in (*starts, self._trouble.start, self._sellers.start):
            start()
        self._kill(name, tell)
        has_ended = self._heal(name, tell)
        is_final = eventually(self._is_final, seconds=_FINALITY_SECONDS)
        if self._environment.is_direct:
            wait_for_transfers(self._environment)
        for slot in self._slots:
            slot.end()
        self._trouble.end()
        audit = run_audit(self._environment, self._folder)
        checker = Checker(self._environment, self._sellers.sales, audit)
        wrongs = list(self._sellers.find_wrongs(checker.read_rows())) + checker.run()
        wrongs += [] if is_final else [("still loose", str(self._loose))]
        wrongs += [("unexpected answer", text) for text in self._sellers.unexpected]
        wrongs += [("ended by itself", text) for slot in self._slots for text in slot.failures]
        return self._report(name, wrongs, audit, has_ended=has_ended)

    def _kill(self, name: str, tell: Told) -> None:
        end, planned = time.monotonic() + self._options.seconds, self._plan.left
        while self._plan.left and (time.monotonic() < end or self._is_too_soon(end)):
            time.sleep(0.2)
            done = planned - self._plan.left
            sold = len(self._sellers.sales)
            tell(
                f"{name}: {done} of {planned} deaths, {sold} payments{self._plan.last_points}", done / planned
            )

    def _is_too_soon(self, end: float) -> bool:
        """Return whether there was too little to see, as on a machine that does other things as well."""
        deaths = self._plan.deaths.total()
        too_little = len(self._sellers.sales) < _FEWEST_PAYMENTS or deaths < FEWEST_DEATHS
        return too_little and time.monotonic() < end + _MORE_SECONDS

    def _heal(self, name: str, tell: Told) -> bool:
        self._sellers.stop()
        for slot in self._slots:
            slot.heal()
        self._trouble.heal()
        end = time.monotonic() + _HEALING_SECONDS
        while not self._sellers.is_done() and time.monotonic() < end:
            self._environment.heal()
            time.sleep(0.2)
            tell(f"{name}: healed, waiting for the last payments", 1.0)
        has_ended = self._sellers.is_done()
        self._sellers.give_up()
        return has_ended

    def _is_final(self) -> bool:
        """Whether each payment that succeeded is in a safe block, or known to be lost."""
        with closing(Database(self._environment.settings["database"], pool_size=1)) as database:
            found = summarize_reorgs(database)
            self._loose = {"open": found.open, "settled again": found.settled, "lost": found.lost}
        return found.open == 0 and found.unchecked_since is None

    def _report(
        self, name: str, wrongs: list[tuple[str, str]], audit: Audit, *, has_ended: bool
    ) -> dict[str, Any]:
        sales = self._sellers.sales
        deaths = self._plan.deaths
        return {
            "name": name,
            "seed": self._options.seed,
            "naive": self._options.naive,
            "deaths": {point: deaths[point] for point in self._points},
            "deaths of": dict(self._plan.deaths_of),
            "killed elsewhere": self._plan.elsewhere,
            "payments": dict(Counter(sale.kind for sale in sales)),
            "statuses": dict(Counter(sale.status or "none" for sale in sales)),
            "refused": self._sellers.refused,
            "answers": dict(self._sellers.answers),
            "trouble": dict(self._trouble.made),
            "faults": dict(Counter(self._environment.faulty.met)) if self._environment.faulty else {},
            "unknown after a restore": sum(sale.is_unknown for sale in sales),
            "loose": self._loose,
            "audit": dict(audit.result),
            "has ended": has_ended,
            "wrongs": [list(wrong) for wrong in wrongs],
        }
