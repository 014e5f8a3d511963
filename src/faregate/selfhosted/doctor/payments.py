"""Check nodes, facilitators and the gas account."""

from urllib.parse import urlsplit

from faregate.errors import ConfigurationError
from faregate.payments.chain import ChainReader
from faregate.payments.facilitator import FacilitatorClient, FacilitatorUnavailable
from faregate.payments.node import ChainNode
from faregate.payments.rpc import RpcError
from faregate.selfhosted.doctor.findings import Findings, report_error, report_ok, warn
from faregate.selfhosted.payment_lines import PaymentLine, build_lines
from faregate.selfhosted.settings import Settings
from faregate.service.payments import PaymentsUnavailable
from faregate.system import system_clock
from faregate.x402.tokens import CHAINS, TOKENS, Environment

MOST_SECONDS_BEHIND = 30
"""Blocks of Base come every two seconds. A payment is good for a minute or so."""


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
        lines = build_lines(settings)
    except ConfigurationError as error:  # such as a key file that cannot be read
        yield report_error("payments", str(error).removesuffix("."), "Mend it, and run this again.")
        return
    try:
        for environment, line in lines.items():
            for url in settings.get_rpc_urls(environment):
                yield from _check_node(environment, url)
            for facilitator in line.facilitators:
                yield from _check_facilitator(environment, facilitator)
            yield from _check_gas_account(line)
    finally:
        for line in lines.values():
            line.close()
    if "live" not in lines:
        yield report_ok("live", "live keys are refused, because rpc_live is not set")


def _check_node(environment: Environment, url: str) -> Findings:
    """Check one node. Each is asked alone: the next one must not hide that it is broken."""
    subject = f"rpc_{environment} {urlsplit(url).hostname}"
    chain = ChainReader(CHAINS[environment], (url,), clock=system_clock)
    try:
        yield report_ok(subject, f"is a node of chain {chain.chain}, at block {chain.get_head()}")
        yield from _check_clock(subject, chain)
        yield from _check_tokens(environment, subject, chain)
    except (PaymentsUnavailable, RpcError) as error:
        yield report_error(subject, str(error), f"Give a node of chain {chain.chain} as rpc_{environment}.")
    finally:
        chain.close()


def _check_clock(subject: str, chain: ChainReader) -> Findings:
    head = ChainNode(chain.client.nodes[0]).get_head()
    behind = system_clock().timestamp() - head.timestamp
    if abs(behind) > MOST_SECONDS_BEHIND:
        place = "behind" if behind > 0 else "ahead of"
        yield warn(
            subject,
            f"its latest block is {abs(behind):.0f} seconds {place} this machine's clock",
            "Compare the clock with NTP; if it is right, the node lags: use another one.",
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


def _check_facilitator(environment: Environment, facilitator: FacilitatorClient) -> Findings:
    subject, network = f"facilitator_{environment} {facilitator.name}", f"eip155:{CHAINS[environment]}"
    try:
        networks = facilitator.list_networks()
    except FacilitatorUnavailable as error:
        yield report_error(subject, str(error), "Start it, mend its URL, or check auth_hook.")
        return
    if network in networks:
        yield report_ok(subject, f"settles on {network}")
    else:
        yield report_error(
            subject, f"does not settle on {network}", f"Name another under facilitator_{environment}."
        )


def _check_gas_account(line: PaymentLine) -> Findings:
    if line.gas_account is None:
        return
    subject = f"gas account {line.gas_account.address} in {line.environment}"
    try:
        obstacle = line.gas_account.find_obstacle()
        balance = line.gas_account.read_balance()
    except PaymentsUnavailable as error:
        yield report_error(subject, str(error), f"Mend rpc_{line.environment}.")
        return
    shown = f"has {balance.wei / 10**18:.6f} ETH"
    if obstacle is not None:
        yield report_error(subject, obstacle, "Until then payments wait.")
    elif balance.is_low:
        yield warn(subject, f"{shown}, less than gas_alarm_eth", "Send it some ETH.")
    else:
        yield report_ok(subject, shown)
