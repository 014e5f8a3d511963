"""`faregate service key create | list | revoke`."""

import json
from argparse import Namespace
from typing import Any

from faregate.errors import ConfigurationError
from faregate.rules.account import CAPABILITIES
from faregate.service.database.keys import StoredKey, create_key, list_keys, revoke_key
from faregate.service.settings import Settings, find_environment, read_settings
from faregate.service.storage import Storage, open_storage
from faregate.system import system_clock


def run_create(arguments: Namespace) -> int:
    """Create a key, and show it once."""
    settings = read_settings(arguments)
    environment = arguments.environment or find_environment()
    if environment not in settings.environments:
        raise ConfigurationError(_explain_no_keys(settings, environment))
    with open_storage(settings) as storage:
        account = storage.find_account(environment, arguments.seller)
        with storage.database.write() as connection:
            made = create_key(
                connection,
                account,
                system_clock(),
                name=arguments.name,
                capabilities=arguments.capability or CAPABILITIES,
            )
    if arguments.json:
        print(json.dumps({"id": made.stored.id, "key": made.secret}))
    else:
        print(f"{made.secret}\n\nKeep it now: it cannot be shown again. Its id is {made.stored.id}.")
    return 0


def run_list(arguments: Namespace) -> int:
    """List the keys of an account, as far as they can be shown."""
    with open_storage(read_settings(arguments)) as storage:
        account = storage.find_account(arguments.environment or find_environment(), arguments.seller)
        with storage.database.read() as connection:
            keys = list_keys(connection, account.id)
    if arguments.json:
        print(json.dumps({"keys": [_to_json(key) for key in keys]}))
    else:
        print("\n".join(map(_describe, keys)) or "there are no keys")
    return 0


def run_revoke(arguments: Namespace) -> int:
    """Revoke a key of any account."""
    with open_storage(read_settings(arguments)) as storage:
        if not _revoke(storage, arguments.id):
            raise ConfigurationError(f"There is no valid key with the id {arguments.id}: see `key list`.")
    print("revoked: requests with this key are answered 401 from now on")
    return 0


def _revoke(storage: Storage, key_id: str) -> bool:
    with storage.database.write() as connection:
        now = system_clock()
        return any(revoke_key(connection, account.id, key_id, now) for account in storage.list_accounts())


def _explain_no_keys(settings: Settings, environment: str) -> str:
    if settings.payments == "simulated":
        return "Live keys need real payments: set payments to facilitator or direct."
    return (
        f"{environment.capitalize()} keys need a node of the chain to prove payments: set rpc_{environment}."
    )


def _to_json(key: StoredKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "key": _mask(key),
        "name": key.name,
        "capabilities": key.capabilities,
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }


def _describe(key: StoredKey) -> str:
    state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else "valid"
    may = "everything" if set(key.capabilities) == set(CAPABILITIES) else ", ".join(key.capabilities)
    return f"{key.id}  {_mask(key)}  {state}  created {key.created_at:%Y-%m-%d}  {may}  {key.name}".rstrip()


def _mask(key: StoredKey) -> str:
    return f"{key.prefix}…{key.last_four}"
