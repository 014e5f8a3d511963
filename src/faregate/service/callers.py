"""Who makes a request, by the id of the key, and which transaction it is about: for logs and metrics."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from faregate.core.models import Response, WireRequest
from faregate.rules.app import KeyGrant, respond
from faregate.service.database.accounts import AccountRow
from faregate.service.log_format import log_context

_PATH: Final = re.compile(r"/transactions/(txn_[0-9a-f]{32})(?:/complete)?(?:\?.*)?", re.DOTALL)
_BODY: Final = re.compile(rb'"transaction_id":"(txn_[0-9a-f]{32})"')


@dataclass(frozen=True, slots=True)
class LoggedResponse:
    """A response, and the fields of its request's log line."""

    response: Response
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


class KeyAccounts(Protocol):
    """Finds out whose a key is, and says so."""

    def authenticate(self, secret: str, identify: Callable[[AccountRow, str], None]) -> KeyGrant:
        """Call `identify` with the account and the key's id; `HttpError` 401 if the key is not valid."""
        ...


def describe_account(account: AccountRow) -> dict[str, str]:
    """Return the fields that name this account in a log line."""
    return {"account": account.seller_id or account.name, "environment": account.environment}


def answer(request: WireRequest, accounts: KeyAccounts) -> LoggedResponse:
    """Answer a request. What is logged meanwhile has the account, the key's id and the transaction too."""
    caller = _Caller(accounts)
    _, separator, rest = request.path.partition("/merchant/v1")
    named = _PATH.fullmatch(rest) if separator else None
    if named is not None:
        caller.fields["transaction"] = named[1]
    with log_context(caller.fields):
        response = respond(request, caller)
    # Access names its transaction in the answer only.
    authorized = _BODY.search(response.body) if named is None and response.status in (200, 202) else None
    if authorized is not None and rest.partition("?")[0] == "/access":
        caller.fields["transaction"] = authorized[1].decode()
    return LoggedResponse(response, caller.fields)


class _Caller:
    """The `Accounts` of one request: remembers whose key it has."""

    def __init__(self, accounts: KeyAccounts) -> None:
        self._accounts = accounts
        self.fields: dict[str, str] = {}

    def authenticate(self, secret: str) -> KeyGrant:
        return self._accounts.authenticate(secret, self._identify)

    def _identify(self, account: AccountRow, key_id: str) -> None:
        self.fields |= describe_account(account) | {"key": key_id}
