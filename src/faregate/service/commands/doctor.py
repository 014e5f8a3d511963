"""`faregate service doctor`: check everything that the settings name."""

import json
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from urllib.parse import urlsplit

from faregate.errors import ConfigurationError, FaregateError
from faregate.rules.payments import PaymentsUnavailable
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.fees import ETHER
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorUnavailable
from faregate.service.chain.node import LOG_BLOCKS, ChainNode
from faregate.service.chain.rpc import RpcError
from faregate.service.database.accounts import AccountRow
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.generation import check_writes
from faregate.service.database.keys import list_keys
from faregate.service.database.reports import read_database_clock
from faregate.service.environment_payments import EnvironmentPayments, build_payments
from faregate.service.settings import Settings, is_in_process, read_settings, spell_variables
from faregate.service.storage import EXAMPLE_PAY_TO, Storage, find_table_fault
from faregate.system import system_clock
from faregate.x402.tokens import CHAINS, TOKENS, Environment

MOST_SECONDS_APART = 10
"""Two processes that are so far from the database are less than 30 seconds apart, which sales tolerate."""

_SUBJECT = "database"
_REMEDY = "Start it, create it, give its user rights to its tables, or mend `database` or `database_file`."
_WRITE_REMEDY = "Make room on its disk, and let its user write. Until then nothing is sold or settled."
_START = "Start the application: it makes the tables, and publishes its prices."
MOST_SECONDS_BEHIND = 30
"""Blocks of Base come every two seconds. A payment is good for a minute or so."""


def run_doctor(arguments: Namespace) -> int:
    """Print a line for each check as it ends; return 1 if there is an error."""
    settings = read_settings(arguments)
    findings: list[Finding] = []
    is_beside_application = is_in_process(os.environ)
    in_database = check_database(settings, is_beside_application=is_beside_application)
    for raw_finding in chain(in_database, check_payments(settings)):
        finding = _spell_variables(raw_finding) if is_beside_application else raw_finding
        findings.append(finding)
        if not arguments.json:
            print(finding, flush=True)
    if arguments.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    return int(any(finding.level is Level.ERROR for finding in findings))


def _spell_variables(finding: "Finding") -> "Finding":
    texts = finding.subject, finding.text, finding.remedy
    return Finding(finding.level, *map(spell_variables, texts))


# Findings


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and may soon not."""
    ERROR = "error"
    """Payments cannot be verified, settled or proven."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is what to do, empty if all is well. Neither text has secrets."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.level.value:<8}{self.subject}: {self.text}{remedy}"


Findings = Iterator[Finding]


def report_ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def warn(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, subject, f"{text}.", remedy)


def report_error(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.ERROR, subject, f"{text}.", remedy)


# The database, the catalog and the keys


def check_database(settings: Settings, *, is_beside_application: bool = False) -> Findings:
    """Check that the database answers, has the tables of this version, and something to sell.

    With `is_beside_application`, an application has the service inside: no keys are needed.
    """
    with closing(Database(settings.database, pool_size=1)) as database:
        try:
            fault = find_table_fault(database)
        except FaregateError as error:
            yield report_error(_SUBJECT, str(error), _REMEDY)
            return
        if fault:
            init = "Run `faregate service init`."
            remedy = _START if is_beside_application else init
            yield report_error(_SUBJECT, f"{database.name} {fault}", remedy)
            return
        try:
            check_writes(database)
        except FaregateError as error:
            yield report_error(_SUBJECT, f"reading works, and writing does not: {error}", _WRITE_REMEDY)
            return
        yield report_ok(_SUBJECT, f"{database.name} is reachable and current")
        storage = Storage(database, Stamps(database, system_clock))
        yield from _check_database_clock(database)
        yield from _check_accounts(settings, storage, is_beside_application=is_beside_application)
        for unserved in storage.find_unserved(settings):
            yield warn("open payments", unserved.text, unserved.remedy)


def _check_database_clock(database: Database) -> Findings:
    theirs = read_database_clock(database)
    if theirs is None:
        return
    ahead = (system_clock() - theirs).total_seconds()
    if abs(ahead) > MOST_SECONDS_APART:
        place = "ahead of" if ahead > 0 else "behind"
        yield warn(
            _SUBJECT,
            f"this machine's clock is {abs(ahead):.0f} seconds {place} that of the database",
            "Set the clocks of both by NTP.",
        )


def _check_accounts(settings: Settings, storage: Storage, *, is_beside_application: bool) -> Findings:
    accounts = [
        account for account in storage.list_accounts() if account.environment in settings.environments
    ]
    if not accounts:
        apply = "Run `faregate service apply catalog.toml`."
        yield warn("catalog", "there is nothing to sell", _START if is_beside_application else apply)
    for account in accounts:
        yield from _check_recipient(settings, account)
        if not is_beside_application:
            yield from _check_keys(storage, account)


def _check_recipient(settings: Settings, account: AccountRow) -> Findings:
    subject = _name_seller(account)
    if settings.payments != "simulated" and account.pay_to == EXAMPLE_PAY_TO:
        yield report_error(
            subject,
            "payments would go to the address of the example, which nobody owns",
            "Write `pay_to` under [seller] in the catalog, and apply it.",
        )
    elif settings.pay_to is not None and settings.pay_to.lower() != account.pay_to.lower():
        yield warn(
            subject,
            f"is paid at {account.pay_to}, and FAREGATE_SERVICE_PAY_TO says {settings.pay_to}",
            "The application that started last has set the first: start it with the right one.",
        )
    else:
        yield report_ok(subject, f"is paid at {account.pay_to}")


def _check_keys(storage: Storage, account: AccountRow) -> Findings:
    with storage.database.read() as connection:
        valid = [key for key in list_keys(connection, account.id) if key.revoked_at is None]
    if not valid:
        yield warn(
            _name_seller(account),
            "has no valid API key",
            f"Run `faregate service key create --environment {account.environment}`.",
        )


def _name_seller(account: AccountRow) -> str:
    return f"{account.environment} seller {account.name}"


# Nodes, facilitators and the gas account


def check_payments(settings: Settings) -> Findings:
    """Check everything that moves or proves money."""
    if settings.payments == "simulated":
        yield warn(
            "payments",
            "payments are simulated, and nobody is paid",
            "For real ones, set payments to facilitator or direct.",
        )
        return
    try:
        payments = build_payments(settings)
    except ConfigurationError as error:  # such as a key file that cannot be read
        yield report_error("payments", str(error).removesuffix("."), "Mend it, and run this again.")
        return
    try:
        for environment, environment_payments in payments.items():
            for url in settings.get_rpc_urls(environment):
                yield from _check_node(environment, url)
            for facilitator in environment_payments.facilitators:
                yield from _check_facilitator(environment, facilitator)
            yield from _check_gas_account(environment_payments)
    finally:
        for environment_payments in payments.values():
            environment_payments.close()
    if "live" not in payments:
        yield report_ok("live", "no live payments are taken, because rpc_live is not set")


def _check_node(environment: Environment, url: str) -> Findings:
    """Check one node. Each is asked alone: the next one must not hide that it is broken."""
    subject = f"rpc_{environment} {urlsplit(url).hostname}"
    chain = ChainReader(CHAINS[environment], (url,), clock=system_clock)
    try:
        yield report_ok(subject, f"is a node of chain {chain.chain}, at block {chain.get_head()}")
        yield from _check_node_clock(subject, chain)
        yield from _check_tokens(environment, subject, chain)
        yield from _check_logs(environment, subject, chain)
    except (PaymentsUnavailable, RpcError) as error:
        yield report_error(subject, str(error), f"Give a node of chain {chain.chain} as rpc_{environment}.")
    finally:
        chain.close()


def _check_node_clock(subject: str, chain: ChainReader) -> Findings:
    head = ChainNode(chain.client.nodes[0]).get_head()
    behind = system_clock().timestamp() - head.timestamp
    if abs(behind) > MOST_SECONDS_BEHIND:
        place, fault = ("behind", "the node lags") if behind > 0 else ("ahead of", "the node is wrong")
        yield warn(
            subject,
            f"its latest block is {abs(behind):.0f} seconds {place} this machine's clock",
            f"Compare the clock with NTP; if it is right, {fault}: use another one.",
        )


def _check_tokens(environment: Environment, subject: str, chain: ChainReader) -> Findings:
    for (name, asset), token in TOKENS.items():
        if name != environment:
            continue
        fault = chain.find_token_fault(token)
        if fault is None:
            yield report_ok(subject, f"{asset} is at {token.address} and signs as {token.name}")
        else:
            yield report_error(subject, f"{asset}: {fault}", f"Use a node of chain {token.chain}.")


def _check_logs(environment: Environment, subject: str, chain: ChainReader) -> Findings:
    """Check that the node gives logs, which prove that a payment settled. Some nodes do not, or only few."""
    try:
        ChainNode(chain.client.nodes[0]).check_logs(TOKENS[environment, "USDC"])
    except RpcError as error:
        remedy = f"Payments are proven by logs: use another node, which gives those of {LOG_BLOCKS} blocks."
        yield report_error(subject, str(error), remedy)
    else:
        yield report_ok(subject, f"gives the logs of {LOG_BLOCKS} blocks")


def _check_facilitator(environment: Environment, facilitator: FacilitatorClient) -> Findings:
    subject, network = f"facilitator_{environment} {facilitator.name}", f"eip155:{CHAINS[environment]}"
    try:
        networks, addresses = facilitator.list_networks(), facilitator.list_addresses(network)
    except FacilitatorUnavailable as error:
        yield report_error(subject, str(error), "Start it, mend its URL, or check auth_hook.")
        return
    if network in networks:
        yield report_ok(subject, f"settles on {network}")
    else:
        yield report_error(
            subject, f"does not settle on {network}", f"Name another under facilitator_{environment}."
        )
    if addresses:
        yield report_ok(subject, "settles what was used (scheme upto)")


def _check_gas_account(payments: EnvironmentPayments) -> Findings:
    if payments.gas_account is None:
        return
    subject = f"gas account {payments.gas_account.address} in {payments.environment}"
    try:
        obstacle = payments.gas_account.find_obstacle()
        balance = payments.gas_account.read_balance()
    except PaymentsUnavailable as error:
        yield report_error(subject, str(error), f"Mend rpc_{payments.environment}.")
        return
    shown = f"has {balance.wei / ETHER:.6f} ETH, a transfer may take {balance.transfer_cost / ETHER:.6f}"
    if balance.l1_fee:
        shown += f" ({balance.l1_fee / ETHER:.6f} of it for data on layer 1)"
    if obstacle is not None:
        yield report_error(subject, obstacle, "Until then payments wait.")
    elif balance.is_low:
        yield warn(subject, f"{shown}: that is low, see gas_alarm_eth", "Send it some ETH.")
    else:
        yield report_ok(subject, shown)
