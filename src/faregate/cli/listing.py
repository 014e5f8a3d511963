"""`transactions`, `payers`, `resources` and `contracts`: list what the merchant service knows.

On a terminal they print a table of the first rows; into a pipe or a file, all rows as data.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from faregate.cli.terminal import (
    Column,
    Progress,
    format_columns,
    is_stdout_terminal,
)
from faregate.commands import Echo
from faregate.errors import CommandError
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import ListQuery
from faregate.reports.export import (
    FORMATS,
    Format,
    find_format,
    format_moment,
    iterate_lines,
    write_file,
    write_text,
)
from faregate.reports.reader import (
    SnapshotRows,
    TransactionFilter,
    find_payer_id,
    find_resource_id,
    list_payers,
    list_resources,
    list_revisions,
    list_transactions,
    read_price,
    take,
)
from faregate.reports.records import (
    CONTRACT,
    PAYER,
    RECEIPT,
    RESOURCE,
    TRANSACTION,
    ReportColumn,
    TableRow,
    Value,
    build_contract_row,
)
from faregate.reports.typed_contracts import build_module
from faregate.x402.tokens import format_amount, format_price

DEFAULT_LIMIT: Final = 50
Describe = Callable[[TableRow], tuple[str, ...]]


def run_transactions(
    client: MerchantClient,
    echo: Echo,
    *,
    status: str | None,
    payer: str | None,
    resource: str | None,
    since: datetime | None,
    until: datetime | None,
    details: bool,
    order: str | None,
    as_of: datetime | None,
    **output: Any,
) -> int:
    choice = _Output(**output)
    # A person wants to know what was sold and in which asset, which only the receipt says.
    reads_receipts = details or resource is not None or choice.format is None
    wanted = TransactionFilter(
        status,
        payer_id=find_payer_id(client, payer) if payer else None,
        resource_id=find_resource_id(client, resource) if resource else None,
        since=since,
        until=until,
        details=reads_receipts,
    )
    query = choice.build_query(order, as_of)
    columns = (*TRANSACTION, *RECEIPT) if reads_receipts else TRANSACTION
    listing = list_transactions(client, wanted, query)
    return choice.print(echo, "transactions", listing, columns, _TRANSACTION_TABLE, _describe_transaction)


_TRANSACTION_TABLE: Final = (
    Column("TRANSACTION"),
    Column("STATUS"),
    Column("SETTLED", align_right=True),
    Column("CREATED (UTC)", 1),
    Column("RESOURCE", 2),
    Column("PAYER", 3),
    Column("AUTHORIZED", 4, align_right=True),
)


def _describe_transaction(row: TableRow) -> tuple[str, ...]:
    return (
        str(row["id"]),
        _text(row["status"]),
        _amount(row["settled_atomic"], row["asset"]),
        _moment(row["created_at"]),
        _text(row["resource_name"]),
        _short(row["payer"]),
        _amount(row["authorized_atomic"], row["asset"]),
    )


def run_payers(
    client: MerchantClient, echo: Echo, *, order: str | None, as_of: datetime | None, **output: Any
) -> int:
    choice = _Output(**output)
    listing = list_payers(client, choice.build_query(order, as_of))
    table = (
        Column("PAYER"),
        Column("IDENTIFIER"),
        Column("LAST TRANSACTION (UTC)", 1),
        Column("FIRST SEEN (UTC)", 2),
    )
    return choice.print(echo, "payers", listing, PAYER, table, _describe_payer)


def _describe_payer(row: TableRow) -> tuple[str, ...]:
    seen = _moment(row["last_transaction_at"]), _moment(row["created_at"])
    return (str(row["id"]), _text(row["identifier"]), *seen)


def run_resources(
    client: MerchantClient,
    echo: Echo,
    *,
    archived: bool,
    order: str | None,
    as_of: datetime | None,
    **output: Any,
) -> int:
    choice = _Output(**output)
    listing = list_resources(client, choice.build_query(order, as_of), archived=archived)
    table = (
        Column("RESOURCE"),
        Column("NAME"),
        Column("PRICE", align_right=True),
        Column("UPDATED (UTC)", 2),
        Column("DESCRIPTION", 1),
    )
    return choice.print(echo, "resources", listing, RESOURCE, table, _describe_resource)


def _describe_resource(row: TableRow) -> tuple[str, ...]:
    return (
        str(row["id"]),
        _text(row["name"]),
        _text(row["price"]),
        _moment(row["updated_at"]),
        _text(row["description"]),
    )


def run_contracts(client: MerchantClient, echo: Echo, *, python: bool, **output: Any) -> int:
    """List active revisions, or print a module of types for their values."""
    if python:
        _print_module(echo, build_module(list_revisions(client)), output["output"])
        return 0
    choice = _Output(**output)
    revisions = list_revisions(client)
    rows = (build_contract_row(revision, read_price(client, revision)) for revision in revisions)
    table = (
        Column("KEY"),
        Column("REVISION"),
        Column("PRICE", align_right=True),
        Column("VALUES (* REQUIRED)", 1),
        Column("RESOURCE", 2),
    )
    return choice.print(
        echo, "contracts", SnapshotRows(rows, None, len(revisions)), CONTRACT, table, _describe_contract
    )


def _print_module(echo: Echo, text: str, path: str) -> None:
    if path:
        write_text(path, f"{text}\n")
        text = f"Wrote {path}."
    echo(text)


def _describe_contract(row: TableRow) -> tuple[str, ...]:
    required = _names(row["required"])
    return (
        _text(row["integration_key"]),
        _text(row["revision_id"]),
        _text(row["price"] or row["settlement_asset"]),
        ", ".join(f"{name}*" if name in required else name for name in _names(row["values"])) or "-",
        _text(row["resource_name"]),
    )


class _Output:
    """Where rows go and as what. `format` is None for a table; `limit` None for all rows."""

    def __init__(self, *, limit: int | None, all: bool, json: bool, format: str | None, output: str) -> None:
        if json and format not in (None, "json"):
            raise CommandError("Use either --json or --format.")
        if all and limit is not None:
            raise CommandError("Use either --all or --limit.")
        self._path = Path(output) if output else None
        self.format: Format | None = _choose_format("json" if json else format, output)
        # Data is whole unless it is asked for in part: rows that are missing from a file go unnoticed.
        is_table = self.format is None
        self.limit = DEFAULT_LIMIT if is_table and not all and limit is None else limit

    def build_query(self, order: str | None, as_of: datetime | None) -> ListQuery:
        size = None if self.limit is None else min(self.limit, 100)
        return ListQuery.model_validate({"order": order, "as_of": as_of, "page_size": size})

    def print(
        self,
        echo: Echo,
        noun: str,
        listing: SnapshotRows,
        columns: Sequence[ReportColumn],
        table: Sequence[Column],
        describe: Describe,
    ) -> int:
        """Print or write the rows and return the status."""
        limited = take(listing, self.limit)
        if self.format is None:
            self._print_table(echo, noun, limited, table, describe)
        elif self._path is None:
            for line in iterate_lines(limited.rows, columns, self.format):
                echo(line)
        else:
            self._write(echo, noun, limited, columns, self.format, self._path)
        return 0

    def _print_table(
        self, echo: Echo, noun: str, listing: SnapshotRows, table: Sequence[Column], describe: Describe
    ) -> None:
        rows = list[tuple[str, ...]]()
        with Progress(noun, listing.count) as progress:
            for row in listing.rows:
                rows.append(describe(row))
                progress(len(rows))
        if not rows:
            echo(f"No {noun}.{_format_snapshot(listing)}")
            return
        echo(format_columns(rows, table) + "\n")
        more = self.limit is not None and len(rows) == self.limit and listing.count != len(rows)
        of_all = f" of {listing.count:,}" if listing.count not in (None, len(rows)) else ""
        noun = noun.removesuffix("s") if len(rows) == 1 and not of_all else noun
        hint = " List more with --limit N or --all." if more else ""
        echo(f"{len(rows):,}{of_all} {noun}.{_format_snapshot(listing)}{hint}")

    def _write(
        self,
        echo: Echo,
        noun: str,
        listing: SnapshotRows,
        columns: Sequence[ReportColumn],
        format: Format,
        path: Path,
    ) -> None:
        with Progress(noun, listing.count) as progress:
            number = write_file(path, listing.rows, columns, format, progress)
        echo(f"Wrote {number:,} {noun} to {path}.{_format_snapshot(listing)}")


def _choose_format(named: str | None, output: str) -> Format | None:
    for name in FORMATS:
        if named == name:
            return name
    if output:
        return find_format(output)
    return None if named == "table" or is_stdout_terminal() else "json"


def _format_snapshot(listing: SnapshotRows) -> str:
    return "" if listing.as_of is None else f" As of {format_moment(listing.as_of)}."


def _text(value: Value) -> str:
    return "-" if value in (None, "") else str(value)


def _names(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _moment(value: Value) -> str:
    return value.strftime("%Y-%m-%d %H:%M") if isinstance(value, datetime) else "-"


def _amount(value: Value, asset: Value) -> str:
    if not isinstance(value, int):
        return "-"
    # Without a receipt the asset is unknown, but whatever settles here has six decimals.
    return format_amount(value) if asset is None else format_price(value, str(asset))


def _short(value: Value) -> str:
    """An address as wallets show it."""
    text = _text(value)
    return f"{text[:6]}…{text[-4:]}" if len(text) > 12 else text
