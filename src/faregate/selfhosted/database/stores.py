"""The stores of all accounts of one database."""

from dataclasses import dataclass

from faregate.selfhosted.database.accounts import list_accounts
from faregate.selfhosted.database.keys import KeyOwner, find_key_owner
from faregate.selfhosted.database.shared import Shared
from faregate.selfhosted.database.store import SqlStore
from faregate.service.config import Capability


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """What an API key opens, and what it may do there."""

    store: SqlStore
    key_id: str
    capabilities: frozenset[Capability]


class Stores:
    """Opens stores: by API key for a request, or all of them for a worker."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def open_by_key(self, secret: str) -> OpenedStore | None:
        """Open the account of this key; None if the key is not valid. Costs one statement."""
        owner = find_key_owner(self._shared.database, secret)
        if owner is None:
            return None
        return self.open_for(owner)

    def open_for(self, owner: KeyOwner) -> OpenedStore:
        """Open the account of a key that was found."""
        return OpenedStore(SqlStore(self._shared, owner.account), owner.key_id, owner.capabilities)

    def open_all(self) -> tuple[SqlStore, ...]:
        """Open every account, as it is now."""
        with self._shared.database.read() as connection:
            return tuple(SqlStore(self._shared, account) for account in list_accounts(connection))
