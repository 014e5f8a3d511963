"""Prices by use under attack: payments that were forged, repeated or taken from the chain, on every site.

The service is the emulator: its rules are those of `faregate service`. What a chain proves is tried in
`tests/service/chain`.
"""

import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from eth_account import Account as Key
from eth_utils.address import to_checksum_address

from faregate.emulator import TEST_KEY, Account, Emulator, SettlementRule, Wallet
from faregate.service.chain.permit_calls import encode_settlement
from faregate.x402.headers import parse_payment
from faregate.x402.tokens import TOKENS
from tests.attacks.chain import Predictable
from tests.attacks.permits import FORGERIES, HONEST, Forgery, authorize_whole, rewrite_header
from tests.attacks.report import figures
from tests.attacks.site import Attacker, Site, Target, attacked, make_paywall
from tests.attacks.sites import SITES
from tests.support.headers import decode_header, encode_header
from tests.support.products import spread

MAXIMUM, FIXED = 500_000, 200
"""What is authorized, and what is taken of it where a handler reports nothing."""
USDC = TOKENS["test", "USDC"]


def find_framework(site: Site) -> str:
    return site.name.partition("-")[0]


@dataclass
class UsageTarget:
    """A site that sells by use, and the service behind it."""

    target: Target
    emulator: Emulator

    def list_transactions(self) -> list[Any]:
        return self.emulator.read_state(
            lambda service, _: list(service.environments["test"].transactions.values())
        )

    @property
    def received(self) -> int:
        return self.emulator.balance(self.emulator.account.seller.pay_to)


def build_emulator(*, is_required: bool = False, is_fixed: bool = False) -> Emulator:
    """Build the service of a site whose price follows the pages that its handler reports."""
    usage = {"rates": {"pages": "100"}, "fixed": str(FIXED)}
    revision: dict[str, Any] = {
        "amount": MAXIMUM,
        "values": [{"name": "pages", "required": is_required}],
        **({} if is_fixed else {"usage": usage}),
    }
    return Emulator(
        Account.model_validate(
            {
                "keys": [{"key": TEST_KEY}],
                "resources": [{"key": "daily_report", "name": "Daily report", "revisions": [revision]}],
            }
        )
    )


@contextmanager
def attacked_by_use(
    site: Site, emulator: Emulator, around: Callable[[Any], Any] = lambda one: one
) -> Generator[UsageTarget]:
    with attacked(site, make_paywall(emulator, around)) as target:
        yield UsageTarget(target, emulator)


@pytest.fixture(params=spread("site", SITES, find_framework), ids=lambda site: site.name)
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.param
    return found


def ask(attacker: Attacker) -> str:
    asked = attacker.get("/sold")
    assert asked.status_code == 402
    return str(asked.headers["payment-required"])


def send(attacker: Attacker, proof: str, path: str = "/sold") -> httpx.Response:
    return attacker.get(path, **{"PAYMENT-SIGNATURE": proof})


def make_key() -> tuple[str, str]:
    """Make a payer: its private key and its address."""
    account: Any = Key.create()
    return account.key.hex(), str(account.address)


def assert_sold(answer: httpx.Response, target: UsageTarget) -> None:
    """The result came, and its receipt is for what was used."""
    assert answer.status_code == 200, answer.text
    assert target.target.content.mark("body") in answer.text
    assert decode_header(answer.headers["payment-response"])["amount"] == str(FIXED)


ON_SITES = list(zip(FORGERIES, itertools.cycle(SITES), strict=False))
"""The service decides, and each site relays: each forgery on one site, in turn."""


@pytest.mark.parametrize(
    ("forgery", "site"), ON_SITES, ids=[f"{forgery.name}-{site.name}" for forgery, site in ON_SITES]
)
def test_a_forged_payment_buys_nothing(forgery: Forgery, site: Site) -> None:
    key, address = make_key()
    with attacked_by_use(site, build_emulator()) as target, target.target.attacker() as attacker:
        before = target.emulator.balance(address)
        statuses = [send(attacker, forgery.make(key, ask(attacker))).status_code for _ in range(2)]
        attacker.look_around()
        leaks = target.target.content.found_in(attacker.loot)
        figures.count("forged payments of a maximum", leaks, 2)
        assert (statuses, leaks, target.target.content.runs) == ([402, 402], frozenset(), 0)
        assert (target.list_transactions(), target.received) == ([], 0)
        assert target.emulator.balance(address) == before
        # The same payer signs what it was asked: what was forged is the reason of the refusal.
        assert_sold(send(attacker, HONEST.make(key, ask(attacker))), target)
        assert before - target.emulator.balance(address) == FIXED == target.received


def test_a_maximum_buys_nothing_of_a_fixed_price(site: Site) -> None:
    """Its facilitator could take one unit of it."""
    key, _ = make_key()
    emulator = build_emulator(is_fixed=True)
    as_exact = Forgery("", accepted={"scheme": "exact"})
    as_upto = Forgery("", accepted={"scheme": "upto"})
    with attacked_by_use(site, emulator) as target, target.target.attacker() as attacker:
        for forgery in (HONEST, as_exact, as_upto):
            assert send(attacker, forgery.make(key, ask(attacker))).status_code == 402
        leaks = target.target.content.found_in(attacker.loot)
        figures.count("a maximum for a fixed price", leaks, 3)
        assert (leaks, target.target.content.runs, target.list_transactions()) == (frozenset(), 0, [])
        whole = Forgery("", rewrite=authorize_whole).make(key, ask(attacker))
        answer = send(attacker, whole)
        assert decode_header(answer.headers["payment-response"])["amount"] == str(MAXIMUM)


def test_a_payment_is_used_once(site: Site) -> None:
    key, _ = make_key()
    with attacked_by_use(site, build_emulator()) as target, target.target.attacker() as payer:
        proof = HONEST.make(key, ask(payer))
        cookies = httpx.Cookies(payer.http.cookies)
        assert_sold(send(payer, proof), target)
        assert send(payer, proof, "/sold?page=2").status_code == 409
        for other in rewrite_header(proof):
            assert other != proof
            assert send(payer, other).status_code == 409
        # The same nonce, signed anew: as it was, and with another start.
        nonce = decode_header(proof)["payload"]["permit2Authorization"]["nonce"]
        for changes in ({}, {"witness.validAfter": "1"}):
            again = Forgery("", {"nonce": nonce, **changes}).make(key, ask(payer))
            assert send(payer, again).status_code in (402, 409)
        assert (target.target.content.runs, target.received) == (1, FIXED)
        assert len(target.list_transactions()) == 1
        payer.http.cookies = cookies  # as if the answer had not come
        assert_sold(send(payer, proof), target)
        assert (target.target.content.runs, target.received) == (1, FIXED)


def rebuild(proof: str, instructions: str) -> str:
    """Build the header of the official client from the call that settles it, as a stranger could."""
    data = encode_settlement(parse_payment(proof), USDC, FIXED)
    words = [int.from_bytes(data[4 + 32 * n : 36 + 32 * n]) for n in range(9)]
    token, maximum, nonce, deadline, _, payer, to, facilitator, valid_after = words
    length_at = 4 + int.from_bytes(data[4 + 32 * 9 : 36 + 32 * 9])
    signature = data[length_at + 32 : length_at + 32 + int.from_bytes(data[length_at : length_at + 32])]
    required = decode_header(instructions)
    permit = {
        "from": to_address(payer),
        "permitted": {"token": to_address(token), "amount": str(maximum)},
        "spender": decode_header(proof)["payload"]["permit2Authorization"]["spender"],
        "nonce": str(nonce),
        "deadline": str(deadline),
        "witness": {
            "to": to_address(to),
            "facilitator": to_address(facilitator),
            "validAfter": str(valid_after),
        },
    }
    return encode_header(
        {
            "x402Version": 2,
            "accepted": required["accepts"][0],
            "payload": {"permit2Authorization": permit, "signature": "0x" + signature.hex()},
            "resource": required["resource"],
        }
    )


def to_address(number: int) -> str:
    return str(to_checksum_address(number.to_bytes(20, "big")))


def test_what_the_chain_shows_of_a_use_is_no_proof_of_it(site: Site) -> None:
    key, _ = make_key()
    with (
        attacked_by_use(site, build_emulator()) as target,
        target.target.attacker() as payer,
        target.target.attacker() as thief,
    ):
        proof = HONEST.make(key, ask(payer))
        assert_sold(send(payer, proof), target)
        statuses = {send(thief, rebuild(proof, ask(thief))).status_code for _ in range(3)}
        leaks = target.target.content.found_in(thief.loot) - {"background"}
        figures.count("theft of a use by a rebuilt proof", leaks, 3)
        assert (leaks, target.target.content.runs, target.received) == (frozenset(), 1, FIXED)
        assert statuses == {409}


def test_where_instructions_can_be_guessed_a_use_is_delivered_once(site: Site) -> None:
    wallet = Wallet()
    with (
        attacked_by_use(site, build_emulator(), Predictable) as target,
        target.target.attacker() as payer,
        target.target.attacker() as thief,
    ):
        proof = rebuild(wallet.pay(ask(payer)), ask(payer))
        assert rebuild(proof, ask(thief)) == proof  # so the attack is the real one
        assert_sold(send(payer, proof), target)
        assert [send(thief, proof).status_code for _ in range(3)] == [409] * 3
        leaks = target.target.content.found_in(thief.loot) - {"background"}
        figures.count("theft of a use by the same proof", leaks, 3)
        assert (leaks, target.target.content.runs) == (frozenset(), 1)


@pytest.mark.every_value
def test_work_that_does_not_say_what_was_used_gives_nothing(site: Site) -> None:
    """On each site: its handler returns a result, and reports no value that the price needs."""
    key, address = make_key()
    with (
        attacked_by_use(site, build_emulator(is_required=True)) as target,
        target.target.attacker() as attacker,
    ):
        before = target.emulator.balance(address)
        proof = HONEST.make(key, ask(attacker))
        answers = [send(attacker, proof) for _ in range(2)]
        attacker.look_around()
        leaks = target.target.content.found_in(attacker.loot)
        figures.count("a use that was not reported", leaks, 2)
        assert leaks == frozenset()
        assert (answers[0].status_code, answers[0].json()["code"]) == (500, "invalid_usage")
        assert "payment-response" not in answers[0].headers
        assert answers[1].status_code in (402, 409)
        assert (target.emulator.balance(address), target.received) == (before, 0)
        assert [one.status for one in target.list_transactions()] == ["failed"]
        assert target.target.content.runs == 1


def test_a_payer_who_is_emptied_while_the_work_runs_gets_nothing(site: Site) -> None:
    """The facilitator settles nothing, and its payment expires."""
    key, _ = make_key()
    emulator = build_emulator()
    emulator.settle_after("*", SettlementRule(until_expiry=True))
    with attacked_by_use(site, emulator) as target, target.target.attacker() as attacker:
        proof = HONEST.make(key, ask(attacker))
        assert [send(attacker, proof).status_code for _ in range(3)] == [202] * 3
        attacker.look_around()
        leaks = target.target.content.found_in(attacker.loot)
        figures.count("a use that is never settled", leaks, 3)
        assert (leaks, target.received, target.target.content.runs) == (frozenset(), 0, 1)
