"""Write rows as JSON, JSON lines or CSV. Amounts stay whole numbers of atomic units."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal

from faregate.errors import CommandError
from faregate.reports.records import ReportColumn, TableRow, Value

Format = Literal["json", "jsonl", "csv"]
FORMATS: Final[tuple[Format, ...]] = ("json", "jsonl", "csv")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def find_format(path: str) -> Format:
    """The format that the end of a file's name says. Raises `CommandError`."""
    suffix = Path(path).suffix.lower().lstrip(".")
    for name in FORMATS:
        if suffix == name:
            return name
    raise CommandError(f"{path} does not say its format: end it with .json, .jsonl or .csv.")


def iterate_lines(rows: Iterable[TableRow], columns: Sequence[ReportColumn], format: Format) -> Iterator[str]:
    """The lines of a text format, without line breaks at their ends. JSON is an array, one object a line."""
    if format == "csv":
        return _iterate_csv(rows, columns)
    objects = (json.dumps(to_json(row), ensure_ascii=False) for row in rows)
    return objects if format == "jsonl" else _iterate_array(objects)


def to_json(row: TableRow) -> dict[str, Any]:
    """A row with times as ISO 8601 and names as a list."""
    return {name: list(value) if isinstance(value, tuple) else _plain(value) for name, value in row.items()}


def _plain(value: Value) -> Any:
    return format_moment(value) if isinstance(value, datetime) else value


def format_moment(moment: datetime) -> str:
    """ISO 8601 as the service writes it, UTC as `Z`: a shorter time would name an earlier snapshot."""
    exact = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return moment.isoformat(timespec=exact).replace("+00:00", "Z")


def _iterate_array(objects: Iterator[str]) -> Iterator[str]:
    previous = next(objects, None)
    if previous is None:
        yield "[]"
        return
    yield "["
    for exported in objects:
        yield f"  {previous},"
        previous = exported
    yield f"  {previous}"
    yield "]"


def _iterate_csv(rows: Iterable[TableRow], columns: Sequence[ReportColumn]) -> Iterator[str]:
    yield _format_csv([column.name for column in columns])
    for row in rows:
        yield _format_csv([_format_cell(row[column.name]) for column in columns])


def _format_csv(cells: Sequence[object]) -> str:
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _format_cell(value: Value) -> object:
    if isinstance(value, tuple):
        return " ".join(value)
    # A spreadsheet would run a text that looks like a formula, and payers have a say in some texts.
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else _plain(value)


def write_text(path: str, text: str) -> None:
    """Write a file that is small enough to be written at once. Raises `CommandError`."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None


def write_file(
    path: Path,
    rows: Iterable[TableRow],
    columns: Sequence[ReportColumn],
    format: Format,
    progress: Callable[[int], None],
) -> int:
    """Write all rows to a file and return their number. The file appears only when it is complete.

    `progress` is called with the number of rows so far. Raises `CommandError` if the file cannot be
    written.
    """
    # In the same folder: a file is replaced in one step within a file system only.
    unfinished = path.with_name(f".{path.name}.part")
    counted = _Counter(rows, progress)
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            for line in iterate_lines(counted, columns, format):
                file.write(f"{line}\n")
        unfinished.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return counted.number


class _Counter:
    """Rows, counted as they are taken."""

    def __init__(self, rows: Iterable[TableRow], progress: Callable[[int], None]) -> None:
        self.number = 0
        self._rows = rows
        self._progress = progress

    def __iter__(self) -> Iterator[TableRow]:
        for row in self._rows:
            yield row
            self.number += 1
            self._progress(self.number)
