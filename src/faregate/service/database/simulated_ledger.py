"""The tables of the simulated ledger: balances, transfers, and by which rule payments settle.

An account's ledger begins with what its file says, and moves from there: applying the file again adds new
payers, and changes no balance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, String, bindparam, delete, func, insert, select, update

from faregate.rules.account import Account, SettlementRule
from faregate.rules.published_payers import map_settlement_rules
from faregate.rules.simulated_ledger import list_balances
from faregate.service.database.accounts import AccountRow
from faregate.service.database.clock import ACCOUNT, STAMP
from faregate.service.database.engine import Inserts
from faregate.service.database.schema import simulated_balances as balances
from faregate.service.database.schema import simulated_rules as rules
from faregate.service.database.schema import simulated_transfers as transfers
from faregate.service.database.schema import transactions
from faregate.service.database.transactions import CHANGING, OF_ID, StoredTransaction, T, read_row
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import TOKENS, Token

DEFAULT: Final = "default"
"""Stands for every payer without a balance, or a rule, of its own."""

_OF_ADDRESSES: Final = (
    select(balances.c.address, balances.c.balance)
    .where(
        balances.c.account == bindparam("account"),
        balances.c.asset == bindparam("asset"),
        balances.c.address.in_(bindparam("addresses", expanding=True)),
    )
    .order_by(balances.c.address)
)
_SET_BALANCE: Final = (
    update(balances)
    .where(
        balances.c.account == bindparam("of_account"),
        balances.c.asset == bindparam("of_asset"),
        balances.c.address == bindparam("of_address"),
    )
    .values(balance=bindparam("new_balance"))
)
_FIND_TRANSFER: Final = select(transfers.c.transaction_hash).where(
    transfers.c.account == bindparam("account"),
    transfers.c.asset == bindparam("asset"),
    transfers.c.payer == bindparam("payer"),
    transfers.c.nonce == bindparam("nonce"),
)
_DELETE_RULE: Final = delete(rules).where(
    rules.c.account == bindparam("of_account"), rules.c.target == bindparam("of_target")
)
_DELETE_RULES: Final = delete(rules).where(rules.c.account == bindparam("of_account"))
_FIND_RULES: Final = select(rules.c.target, rules.c.rule).where(
    rules.c.account == ACCOUNT,
    rules.c.target.in_((bindparam("payer", type_=String()), DEFAULT)),
)
_SCHEDULE: Final = (
    update(transactions)
    .where(OF_ID, T.finished_at.is_(None))
    .values(plan=bindparam("rule"), reads=0, next_attempt_at=bindparam("due", type_=BigInteger()))
    .returning(*CHANGING)
)
_SCHEDULE_VIA: Final = {
    "settling": _SCHEDULE.values(settling_at=func.coalesce(T.settling_at, STAMP)),
    "reconciling": _SCHEDULE.values(reconciling_at=func.coalesce(T.reconciling_at, STAMP)),
}
_COUNT_READ: Final = (
    update(transactions)
    .where(OF_ID, T.finished_at.is_(None), T.plan.is_not(None))
    .values(reads=T.reads + 1)
    .returning(T.reads)
)
_UNTIL: Final = bindparam("until", type_=BigInteger())
_WAITS: Final = (T.account == ACCOUNT) & (T.next_attempt_at <= _UNTIL) & T.plan.is_not(None)
_HAS_DUE: Final = select(T.id).where(_WAITS).limit(1)
_FIND_DUE: Final = (
    select(T.id, T.next_attempt_at)
    .where(_WAITS)
    .order_by(T.next_attempt_at, T.created_at, T.id)
    .with_for_update(skip_locked=True)
)
_TAKE_DUE: Final = (
    update(transactions).where(OF_ID).values(next_attempt_at=bindparam("again", type_=BigInteger()))
)
_INSERT_BALANCE: Final = Inserts(balances, lambda insert: insert.on_conflict_do_nothing())


def set_up_ledger(connection: Connection, account: AccountRow, config: Account) -> None:
    """Write the balances and rules of this file. Balances that are there already stay as they are."""
    tokens = [token for (environment, _), token in TOKENS.items() if environment == account.environment]
    rows = [(token, DEFAULT, config.default_balance) for token in tokens]
    # Of two balances for one address the last one counts.
    rows += {
        (token, address): (token, address, balance)
        for token, address, balance in list_balances(config, account.environment)
    }.values()
    for token, address, balance in rows:
        _insert_balance(connection, account.id, token, address.lower(), balance)
    connection.execute(_DELETE_RULES, {"of_account": account.id})
    wanted = {DEFAULT: config.settlement, **map_settlement_rules(config, account.environment)}
    for target, rule in wanted.items():
        set_rule(connection, account.id, target, rule)


def get_balances(
    connection: Connection, account: int, token: Token, *addresses: str, lock: bool = False
) -> list[int]:
    """Return the balances of these addresses in atomic units; with `lock`, until the transaction ends."""
    balances = dict[str, int]()
    wanted = [address.lower() for address in addresses]
    # The default is never locked: all payers would wait for each other.
    for part, is_locked in ((wanted, lock), ([DEFAULT], False)):
        query = _OF_ADDRESSES.with_for_update() if is_locked else _OF_ADDRESSES
        parameters = {"account": account, "asset": token.address, "addresses": part}
        balances |= {row.address: row.balance for row in connection.execute(query, parameters)}
    return [balances.get(address, balances.get(DEFAULT, 0)) for address in wanted]


def set_balance(connection: Connection, account: int, token: Token, address: str, balance: int) -> None:
    """Set the balance of this address, in atomic units."""
    _insert_balance(connection, account, token, address.lower(), balance)
    values = {
        "of_account": account,
        "of_asset": token.address,
        "of_address": address.lower(),
        "new_balance": balance,
    }
    connection.execute(_SET_BALANCE, values)


def find_transfer(connection: Connection, account: int, token: Token, payment: SignedPayment) -> str | None:
    """Return the hash of the transfer that used this authorization, if one did."""
    return connection.execute(_FIND_TRANSFER, _name_transfer(account, token, payment)).scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class Funds:
    """The balances of the two who take part in a transfer, locked until the transaction ends."""

    payer: int
    recipient: int


def lock_funds(connection: Connection, account: int, terms: Terms, payment: SignedPayment) -> Funds:
    """Lock both balances; another call that locks one of them waits."""
    # A default balance has no row to lock, so it is written first; in one order, or two transfers between the
    # same two accounts could wait for each other for ever.
    for address in sorted({payment.payer.lower(), payment.to.lower()}):
        [present] = get_balances(connection, account, terms.token, address)
        _insert_balance(connection, account, terms.token, address, present)
    return Funds(*get_balances(connection, account, terms.token, payment.payer, payment.to, lock=True))


def record_transfer(
    connection: Connection,
    account: int,
    terms: Terms,
    payment: SignedPayment,
    funds: Funds,
    amount: int,
    transaction_hash: str,
) -> None:
    """Move the amount, and note that the authorization is used."""
    if payment.payer.lower() != payment.to.lower():
        set_balance(connection, account, terms.token, payment.payer, funds.payer - amount)
        set_balance(connection, account, terms.token, payment.to, funds.recipient + amount)
    values = _name_transfer(account, terms.token, payment) | {"transaction_hash": transaction_hash}
    connection.execute(insert(transfers), values)


def set_rule(connection: Connection, account: int, target: str, rule: SettlementRule | None) -> None:
    """Set how the payments of this payer (lower case), or of `DEFAULT`, settle; None removes the rule."""
    connection.execute(_DELETE_RULE, {"of_account": account, "of_target": target})
    if rule is not None:
        connection.execute(
            insert(rules), {"account": account, "target": target, "rule": rule.model_dump_json()}
        )


def _insert_balance(connection: Connection, account: int, token: Token, address: str, balance: int) -> None:
    values = {"account": account, "asset": token.address, "address": address, "balance": balance}
    connection.execute(_INSERT_BALANCE.get(connection), values)


def _name_transfer(account: int, token: Token, payment: SignedPayment) -> dict[str, Any]:
    return {"account": account, "asset": token.address, "payer": payment.payer, "nonce": payment.nonce}


# What waits for its rule


def find_rules(connection: Connection, account: int, payer: str) -> Mapping[str, SettlementRule]:
    """Find the rules of this payer (lower case) and the default, by their targets."""
    rules = connection.execute(_FIND_RULES, {"of_account": account, "payer": payer})
    return {target: SettlementRule.model_validate_json(rule) for target, rule in rules}


def schedule(
    connection: Connection, stored: StoredTransaction, rule: SettlementRule, values: dict[str, Any]
) -> StoredTransaction | None:
    """Let the payment wait; None if it has ended. `values`: account, now, due."""
    keys = {**values, "of_transaction": stored.id, "rule": rule.model_dump_json()}
    row = read_row(connection.execute(_SCHEDULE_VIA[rule.via], keys))
    return None if row is None else stored.with_change(row)


def count_read(connection: Connection, account: int, stored: StoredTransaction) -> int | None:
    """Count a read of a payment that waits; None if it does not wait any more."""
    keys = {"of_account": account, "of_transaction": stored.id}
    return connection.execute(_COUNT_READ, keys).scalar_one_or_none()


def has_due(connection: Connection, account: int, until: int) -> bool:
    return connection.execute(_HAS_DUE, {"of_account": account, "until": until}).one_or_none() is not None


def take_due(connection: Connection, account: int, until: int, again: int) -> dict[str, int]:
    """Take the payments that are due, by their ids with their times; due `again` if no call settles them."""
    due = {
        row.id: row.next_attempt_at
        for row in connection.execute(_FIND_DUE, {"of_account": account, "until": until})
    }
    for transaction in due:
        connection.execute(_TAKE_DUE, {"of_account": account, "of_transaction": transaction, "again": again})
    return due
