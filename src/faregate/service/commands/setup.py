"""`faregate service init` and `apply`."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from faregate.errors import ConfigurationError
from faregate.rules.account import Account
from faregate.service.database.accounts import list_accounts_of
from faregate.service.database.apply import ChangeKind, ConfigChange, Review, apply_account
from faregate.service.database.generation import renew_generation
from faregate.service.database.simulated_ledger import set_up_ledger
from faregate.service.database.upgrade import upgrade
from faregate.service.settings import Settings, read_settings
from faregate.service.storage import (
    Storage,
    check_recipient,
    open_storage,
)


def run_init(arguments: Namespace) -> int:
    """Bring the tables to this version."""
    settings = read_settings(arguments)
    print("bringing the tables to this version ...", file=sys.stderr, flush=True)
    upgrade(settings.database)
    with open_storage(settings) as storage:
        # The database may be a restored copy: a new generation makes running processes drop their caches.
        renew_generation(storage.database)
        print(f"{storage.database.name} is ready.")
    return 0


def run_apply(arguments: Namespace) -> int:
    """Apply a catalog, and print what changed."""
    settings = read_settings(arguments)
    with open_storage(settings) as storage:
        changes = apply_catalog(
            storage,
            settings,
            arguments.file,
            archive_missing=arguments.archive_missing,
            review=None if arguments.yes else _confirm,
        )
    if arguments.json:
        print(json.dumps({"changes": [asdict(change) for change in changes]}))
    elif changes:
        print(_format_changes(changes))
    else:
        print("nothing to change")
    return 0


def apply_catalog(
    storage: Storage,
    settings: Settings,
    path: str,
    *,
    archive_missing: bool = False,
    review: Review | None = None,
) -> tuple[ConfigChange, ...]:
    """Apply the catalog in a file.

    Raises `ConfigurationError` if the catalog is not valid, or still pays the address of the example.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the catalog: {error}") from None
    account, has_keys = Account.from_catalog(text, path)
    check_recipient(settings, account.seller.name, account.seller.pay_to)
    if has_keys:
        print(f"{path}: keys are not applied; use `faregate service key create`", file=sys.stderr)
    return apply_seller(storage, account, archive_missing=archive_missing, review=review)


def apply_seller(
    storage: Storage, seller: Account, *, archive_missing: bool = False, review: Review | None = None
) -> tuple[ConfigChange, ...]:
    """Apply the catalog and the simulated balances of this seller."""
    changes = apply_account(
        storage.database, storage.stamps, seller, archive_missing=archive_missing, review=review
    )
    with storage.database.write() as connection:
        for account_id in list_accounts_of(connection, seller.seller):
            set_up_ledger(connection, account_id, seller)
    return changes


def refuse_at_start(path: str) -> Review:
    """Build the review of a server as it starts: it cannot ask a person, and refuses what needs consent."""

    def review(changes: Sequence[ConfigChange]) -> None:
        if any(change.needs_consent for change in changes):
            raise ConfigurationError(
                f"{path} changes who is paid, or a price:\n{_format_changes(changes)}\nIf it should, run "
                f"`faregate service apply {path}` first."
            )

    return review


def _confirm(changes: Sequence[ConfigChange]) -> None:
    """Have a person confirm changes of addresses and prices. Raises `ConfigurationError`."""
    if not any(change.needs_consent for change in changes):
        return
    print(_format_changes(changes), file=sys.stderr, flush=True)
    if not _is_interactive():
        raise ConfigurationError("This changes who is paid, or a price. If it should, give --yes.")
    print("Change who is paid, or a price? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigurationError("Nothing was changed.")


def _is_interactive() -> bool:
    # A process without a console, such as pythonw, has None for stdin.
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _format_changes(changes: Sequence[ConfigChange]) -> str:
    return "\n".join(map(_format_change, changes))


def _format_change(change: ConfigChange) -> str:
    name = "the seller" if change.resource is None else change.resource
    detail = f" ({change.detail})" if change.detail else ""
    warning = " Use --archive-missing to take it off sale." if change.kind is ChangeKind.MISSING else ""
    return f"{change.environment:<5} {name}: {change.kind.value}{detail}{warning}"
