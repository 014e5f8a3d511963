"""`faregate service export`: all transactions, as CSV or JSON lines."""

import csv
import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any, Final

from faregate.errors import ConfigurationError
from faregate.service.database.reports import ExportedTransaction, export_transactions
from faregate.service.settings import find_environment, read_settings
from faregate.service.storage import open_storage

COLUMNS: Final = tuple(column.name for column in fields(ExportedTransaction))
_TOLD_EVERY: Final = 10_000


def run_export(arguments: Namespace) -> int:
    """Write a row for each transaction, oldest first. Memory use does not grow with their number."""
    with open_storage(read_settings(arguments)) as storage:
        account = storage.find_account(arguments.environment or find_environment(), arguments.seller)
        transactions = export_transactions(storage.database, account.id)
        with _open_output(arguments.output) as output:
            write = _write_csv if arguments.format == "csv" else _write_json_lines
            count = write(output, _show_progress(_to_row(transaction) for transaction in transactions))
    if arguments.output is not None:
        print(f"{count} transactions written to {arguments.output}", file=sys.stderr)
    return 0


def _open_output(path: str | None) -> AbstractContextManager[IO[str]]:
    if path is None:
        return nullcontext(sys.stdout)
    try:
        return Path(path).open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None


def _to_row(transaction: ExportedTransaction) -> dict[str, Any]:
    return {
        **asdict(transaction),
        "created_at": transaction.created_at.isoformat(),
        "settled_at": transaction.settled_at.isoformat() if transaction.settled_at else None,
        "amount_atomic": str(transaction.amount_atomic),  # up to 30 digits, which JSON readers would round
        "refunded_atomic": str(transaction.refunded_atomic),
    }


def _write_csv(output: IO[str], rows: Iterable[dict[str, Any]]) -> int:
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for row in rows:
        writer.writerow([_guard_cell(row[name]) for name in COLUMNS])
        count += 1
    return count


def _guard_cell(value: Any) -> Any:
    """Keep a spreadsheet from taking text of others for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def _write_json_lines(output: IO[str], rows: Iterable[dict[str, Any]]) -> int:
    count = 0
    for row in rows:
        output.write(json.dumps(row) + "\n")
        count += 1
    return count


def _show_progress(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for count, row in enumerate(rows, 1):
        yield row
        if count % _TOLD_EVERY == 0:
            print(f"{count} transactions ...", file=sys.stderr, flush=True)
