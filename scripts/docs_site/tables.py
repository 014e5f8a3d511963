"""The tables in docs/ that are made from the code: public names and commands."""

from docs_site.commands import PAGES as COMMANDS_PAGES
from docs_site.commands import with_commands
from docs_site.pages import ROOT
from docs_site.public_names import PAGES as NAMES_PAGES
from docs_site.public_names import with_tables


def find_old_tables() -> list[str]:
    """The pages whose tables are not current."""
    return write_tables(dry_run=True)


def write_tables(*, dry_run: bool = False) -> list[str]:
    """Update the tables; returns the pages that changed, or would with `dry_run`."""
    changed: list[str] = []
    for page in (*COMMANDS_PAGES, *sorted(NAMES_PAGES.glob("*.md"))):
        text = page.read_text("utf-8")
        current = with_tables(with_commands(text))
        if current != text:
            changed.append(page.relative_to(ROOT).as_posix())
            if not dry_run:
                page.write_text(current, "utf-8")
    return changed
