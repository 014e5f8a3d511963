"""Lists of transactions and payers as of a moment.

Up to the account's cut-off time (`clock.py`) nothing changes any more. So the length of such a list can be
remembered, and a later list of the same kind counts only what was added since.

A page is cut by position: from the nearer end, or from the edge of a page that was read before. So
a client that reads a long list in order pays the same for each page. Only a jump into its middle walks
through the index.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from threading import Lock
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    String,
    and_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
)

from faregate.rules.http import ParsedListQuery
from faregate.rules.records import FINAL, PayerView
from faregate.rules.store import RecordPage, cut_page
from faregate.service.database.clock import ACCOUNT
from faregate.service.database.schema import payers, transactions
from faregate.service.database.transactions import PAYER_COLUMNS, SELECT, T
from faregate.service.database.types import to_datetime, to_microseconds

_REMEMBERED_COUNTS: Final = 1000
_MOMENT: Final = bindparam("moment", type_=BigInteger())
_EARLIER: Final = bindparam("earlier", type_=BigInteger())
_START: Final = bindparam("start", type_=Integer())
_SIZE: Final = bindparam("size", type_=Integer())
_EDGE: Final = tuple_(bindparam("edge_at", type_=BigInteger()), bindparam("edge_id", type_=String()))
_BEFORE_ALL: Final = (-1, "")
_AFTER_ALL_IDS: Final = "~"
_REMEMBERED_EDGES: Final = 50


def _had_not(column: ColumnElement[Any]) -> ColumnElement[bool]:
    return or_(column.is_(None), column > _MOMENT)


_STATUSES: Final[dict[str, ColumnElement[bool]]] = {
    "authorized": and_(_had_not(T.finished_at), _had_not(T.settling_at), _had_not(T.reconciling_at)),
    "settling": and_(_had_not(T.finished_at), T.settling_at <= _MOMENT, _had_not(T.reconciling_at)),
    "reconciling": and_(_had_not(T.finished_at), T.reconciling_at <= _MOMENT),
    "failed": and_(T.final_status == "failed", T.finished_at <= _MOMENT),
    "succeeded": and_(T.final_status == "succeeded", T.finished_at <= _MOMENT),
}
"""What is true of a transaction that has this status as of the moment."""
_OPEN: Final = ("authorized", "settling", "reconciling")


@dataclass(frozen=True, slots=True)
class _List:
    """The statements of one kind of list. Both pages take positions from their own end.

    The newest end of a list is an edge, too. Beside an edge within, the moment would be a second upper limit,
    and SQLite would begin at the moment and walk to the edge.

    `count_later` counts what came after an earlier moment; None for lists that also lose records.
    """

    count: Any
    count_later: Any | None
    from_oldest: Any
    from_newest: Any
    get_edge: Callable[[Any], "Edge"]


def _list_transactions(status: str | None, of_payer: bool) -> _List:
    # Few transactions are open. The sum keeps SQLite from walking through all by the time of their creation.
    created_at = T.created_at + 0 if status in _OPEN else T.created_at
    chosen = [T.account == ACCOUNT]
    if of_payer:
        chosen.append(T.payer == bindparam("payer"))
    if status is not None:
        chosen.append(_STATUSES[status])

    existed = created_at <= _MOMENT
    place = tuple_(created_at, T.id)

    def page(limits: Sequence[ColumnElement[bool]], *order: ColumnElement[Any]) -> Any:
        # Only the index is read for what is skipped: the whole rows are looked up for one page.
        ids = select(T.id).where(*chosen, *limits).order_by(*order).offset(_START).limit(_SIZE).subquery()
        return SELECT.join(ids, ids.c.id == T.id).where(T.account == ACCOUNT).order_by(*order)

    counted = select(func.count()).select_from(transactions).where(*chosen, existed)
    later = T.created_at > _EARLIER
    if status in FINAL:
        # Processes have clocks of their own: an end may be stamped earlier than the authorization.
        later = or_(later, T.finished_at > _EARLIER)
    return _List(
        counted,
        counted.where(later) if status is None or status in FINAL else None,
        page((existed, place > _EDGE), T.created_at, T.id),
        page((place < _EDGE,), T.created_at.desc(), T.id.desc()),
        itemgetter("created_at", "id"),
    )


_TRANSACTIONS: Final = {
    (status, of_payer): _list_transactions(status, of_payer)
    for status in (None, *_STATUSES)
    for of_payer in (False, True)
}


def _list_payers() -> _List:
    of_account, existed = payers.c.account == ACCOUNT, payers.c.created_at <= _MOMENT
    last = (
        select(func.max(T.created_at))
        .where(T.account == payers.c.account, T.payer == payers.c.address, T.created_at <= _MOMENT)
        .scalar_subquery()
        .label("last_at")
    )

    place = tuple_(payers.c.created_at, payers.c.id)

    def page(limits: Sequence[ColumnElement[bool]], *order: ColumnElement[Any]) -> Any:
        query = select(*PAYER_COLUMNS, last).where(of_account, *limits)
        return query.order_by(*order).offset(_START).limit(_SIZE)

    counted = select(func.count()).select_from(payers).where(of_account, existed)
    return _List(
        counted,
        counted.where(payers.c.created_at > _EARLIER),
        page((existed, place > _EDGE), payers.c.created_at, payers.c.id),
        page((place < _EDGE,), payers.c.created_at.desc(), payers.c.id.desc()),
        itemgetter("payer_created_at", "payer_id"),
    )


_PAYERS: Final = _list_payers()
_FIND_PAYER: Final = select(payers.c.address).where(
    payers.c.account == ACCOUNT, payers.c.id == bindparam("payer_id")
)
_FIND_PAYER_ID: Final = select(payers.c.id).where(
    payers.c.account == ACCOUNT, payers.c.address == bindparam("address")
)


class Counts:
    """How long lists are that cannot change any more, and the edges of their pages; of the latest."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._latest: OrderedDict[tuple[Any, ...], tuple[int, int]] = OrderedDict()
        self.edges: Final = Edges()

    def get(
        self, key: tuple[Any, ...], moment: int, count: Callable[[int | None], int], *, only_grows: bool
    ) -> int:
        """Return how many records the list has at this moment.

        `count` counts all of them, or those that came after an earlier moment if such a list only grows.
        """
        counted = self._known.get((*key, moment))
        if counted is None:
            counted = self._count_later(key, moment, count) if only_grows else count(None)
            _remember(self._known, (*key, moment), counted)
        return counted

    def _count_later(self, key: tuple[Any, ...], moment: int, count: Callable[[int | None], int]) -> int:
        earlier = self._latest.get(key)
        if earlier is not None and earlier[0] > moment:
            return count(None)
        counted = count(None) if earlier is None else earlier[1] + count(earlier[0])
        _remember(self._latest, key, (moment, counted))
        return counted


Edge = tuple[int, str]
"""When a record was created, and its id: the order of lists."""


class Edges:
    """Where the pages of lists began and ended, by position; the latest are remembered.

    A list as of a moment never changes, so an edge stays where it is.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], OrderedDict[int, Edge]] = OrderedDict()
        self._lock = Lock()

    def find(self, key: tuple[Any, ...], position: int, beginning: Edge) -> tuple[int, Edge]:
        """Return the last known edge that is not after this position, and its own position."""
        with self._lock:
            edges = self._known.get(key)
            nearest = max(
                (edge_position for edge_position in edges or () if edge_position <= position), default=0
            )
            return nearest, edges.get(nearest, beginning) if edges else beginning

    def remember(self, key: tuple[Any, ...], position: int, edge: Edge) -> None:
        """Note that `edge` is the record before this position."""
        with self._lock:
            edges = self._known.setdefault(key, OrderedDict())
            edges[position] = edge
            if len(edges) > _REMEMBERED_EDGES:
                edges.popitem(last=False)
            if len(self._known) > _REMEMBERED_COUNTS:
                self._known.popitem(last=False)


def _remember(counts: OrderedDict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
    counts[key] = value
    while len(counts) > _REMEMBERED_COUNTS:
        counts.popitem(last=False)


def list_transactions(
    connection: Connection,
    counts: Counts,
    account: int,
    query: ParsedListQuery,
    status: str | None,
    payer_id: str | None,
) -> RecordPage[Any]:
    """Return the rows of one page, of this status and payer if they are given."""
    values: dict[str, Any] = {"of_account": account, "moment": to_microseconds(query.as_of)}
    if payer_id is not None:
        keys = {"of_account": account, "payer_id": payer_id}
        address = connection.execute(_FIND_PAYER, keys).scalar_one_or_none()
        if address is None:
            return RecordPage(0, ())
        values["payer"] = address
    kind = _TRANSACTIONS[status, payer_id is not None]
    return _cut(
        connection, counts, kind, ("transactions", status, account, values.get("payer")), values, query
    )


def list_payers(
    connection: Connection, counts: Counts, account: int, query: ParsedListQuery
) -> RecordPage[PayerView]:
    """Return one page of payers, each as of the moment of the list."""
    values: dict[str, Any] = {"of_account": account, "moment": to_microseconds(query.as_of)}
    page = _cut(connection, counts, _PAYERS, ("payers", account), values, query)
    return RecordPage(page.count, [_to_view(row) for row in page.records])


def find_payer_id(connection: Connection, account: int, address: str) -> str | None:
    """Find the payer with this address, in any case."""
    keys = {"of_account": account, "address": address.lower()}
    return connection.execute(_FIND_PAYER_ID, keys).scalar_one_or_none()


def _cut(
    connection: Connection,
    counts: Counts,
    kind: _List,
    key: tuple[Any, ...],
    values: dict[str, Any],
    query: ParsedListQuery,
) -> RecordPage[Any]:

    def count_records(earlier: int | None) -> int:
        statement: Any = kind.count if earlier is None else kind.count_later
        number: int = connection.execute(statement, {**values, "earlier": earlier}).scalar_one()
        return number

    only_grows = kind.count_later is not None
    count = counts.get(key, values["moment"], count_records, only_grows=only_grows)

    oldest, newest = (*key, values["moment"], "oldest"), (*key, values["moment"], "newest")

    def between(start: int, stop: int) -> Sequence[Any]:
        if start >= stop:
            return ()
        from_oldest = counts.edges.find(oldest, start, _BEFORE_ALL)
        from_newest = counts.edges.find(newest, count - stop, (values["moment"], _AFTER_ALL_IDS))
        if start - from_oldest[0] <= count - stop - from_newest[0]:
            rows = read(kind.from_oldest, from_oldest, start, stop)
        else:
            rows = read(kind.from_newest, from_newest, count - stop, count - start)[::-1]
        if len(rows) == stop - start:
            counts.edges.remember(oldest, stop, kind.get_edge(rows[-1]))
            counts.edges.remember(newest, count - start, kind.get_edge(rows[0]))
        return rows

    def read(page: Any, edge: tuple[int, Edge], start: int, stop: int) -> Sequence[Any]:
        position, (edge_at, edge_id) = edge
        window = {"start": start - position, "size": stop - start, "edge_at": edge_at, "edge_id": edge_id}
        return connection.execute(page, {**values, **window}).mappings().all()

    return cut_page(query, count, between)


def _to_view(row: Any) -> PayerView:
    last: datetime | None = None if row["last_at"] is None else to_datetime(row["last_at"])
    return PayerView(row["payer_id"], row["identifier"], to_datetime(row["payer_created_at"]), last)
