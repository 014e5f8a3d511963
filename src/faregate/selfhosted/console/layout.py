"""What all pages share: the frame, tables, and how money, times and hashes are written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from faregate.selfhosted.console.markup import Child, Markup, build, join
from faregate.service.config import Capability
from faregate.service.records import Status
from faregate.x402.tokens import Environment

ROOT: Final = "/console"
_EXPLORERS: Final[dict[Environment, str]] = {
    "test": "https://sepolia.basescan.org",
    "live": "https://basescan.org",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A page of the navigation, and what a key needs to see it."""

    title: str
    path: str
    capability: Capability


SECTIONS: Final = (
    Section("Overview", ROOT, "transactions:read"),
    Section("Payments", f"{ROOT}/payments", "transactions:read"),
    Section("Payers", f"{ROOT}/payers", "payers:read"),
    Section("Resources", f"{ROOT}/resources", "resources:read"),
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: the account, its environment, and what the key may see."""

    seller: str
    environment: Environment
    is_simulated: bool
    capabilities: frozenset[Capability]


def build_page(viewer: Viewer, path: str, title: str, *content: Child) -> bytes:
    """Build a page of a session. `path` is that of its section."""
    links = [
        build("a", one.title, href=one.path, aria_current="page" if one.path == path else None)
        for one in SECTIONS
        if one.capability in viewer.capabilities
    ]
    mode = f"{viewer.environment}, simulated" if viewer.is_simulated else viewer.environment
    header = build(
        "header",
        build("span", viewer.seller, " ", build("span", mode, class_=f"mode {viewer.environment}")),
        build("nav", *links, aria_label="Pages"),
        build("form", build("button", "Log out"), method="post", action=f"{ROOT}/logout"),
    )
    return build_document(title, header, build("main", build("h1", title), *content, id="main"))


def build_document(title: str, *body: Child) -> bytes:
    head = build(
        "head",
        build("meta", charset="utf-8"),
        build("meta", name="viewport", content="width=device-width, initial-scale=1"),
        build("meta", name="color-scheme", content="light dark"),
        build("title", f"{title} · faregate"),
        build("link", rel="icon", href=f"{ROOT}/icon.svg", type="image/svg+xml"),
        build("link", rel="stylesheet", href=f"{ROOT}/style.css"),
    )
    skip = build("a", "Skip to the content", class_="skip", href="#main")
    return f"<!doctype html>{build('html', head, build('body', skip, *body), lang='en')}".encode()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers stand at the right."""

    title: str
    is_number: bool = False


def build_table(
    title: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]], nothing: str
) -> Markup:
    """Build a table whose cells know their column, for narrow screens; or say that there is nothing."""
    shown = [
        build("tr", *(_build_cell(column, cell) for column, cell in zip(columns, row, strict=True)))
        for row in rows
    ]
    if not shown:
        return build("p", nothing, class_="nothing")
    head = build("tr", *(build("th", one.title, scope="col", class_=_get_class(one)) for one in columns))
    caption = build("caption", title, class_="hidden")
    return build("table", caption, build("thead", head), build("tbody", *shown))


def _build_cell(column: Column, cell: Child) -> Markup:
    return build("td", cell, class_=_get_class(column), data_title=column.title)


def _get_class(column: Column) -> str | None:
    return "n" if column.is_number else None


def build_pairs(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Build a list of names and values; a pair whose value is None is left out."""
    shown = [join(build("dt", name), build("dd", value)) for name, value in pairs if value is not None]
    return build("dl", *shown)


def build_status(status: Status) -> Markup:
    return build("span", status, class_=f"status is-{status}")


def build_time(moment: datetime) -> Markup:
    """Write a time in UTC, to the second."""
    whole = moment.replace(microsecond=0)
    return build("time", f"{whole:%Y-%m-%d %H:%M:%S}", datetime=whole.isoformat())


def build_hash(transaction_hash: str, viewer: Viewer) -> Markup:
    """Write a transaction hash; one of a chain is a link to an explorer, which nothing here loads."""
    code = build("code", transaction_hash)
    if viewer.is_simulated:
        return code
    url = f"{_EXPLORERS[viewer.environment]}/tx/{transaction_hash}"
    return build("a", code, href=url, rel="noreferrer noopener", target="_blank")


def describe_time_span(span: timedelta) -> str:
    """Write how long something takes, in its two largest units."""
    seconds = max(0, int(span.total_seconds()))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count or (name == "s" and not parts):
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])
