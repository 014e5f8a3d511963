"""A payer names a purchase (`payment-identifier`). A stranger who knows the name gets nothing, on no site.

The signature of a payment does not cover the name, so that anybody can write it into a payment.
"""

from collections.abc import Generator

import httpx
import pytest

from faregate.emulator import Wallet
from tests.attacks.chain import Predictable, pay, read_calldata, rebuild_proof
from tests.attacks.report import figures
from tests.attacks.site import Attacker, Site, Target, attacked, make_paywall
from tests.attacks.sites import SITES
from tests.support.headers import decode_header, encode_header
from tests.support.identifiers import with_identifier
from tests.support.products import spread

NAME, OTHER_NAME = "pay_0123456789abcdef", "pay_fedcba9876543210"
KIND = "theft of a named purchase"


def find_framework(site: Site) -> str:
    return site.name.partition("-")[0]


@pytest.fixture(params=spread("shop", SITES, find_framework), ids=lambda site: site.name)
def shop(request: pytest.FixtureRequest) -> Generator[Target]:
    """In front of a service whose instructions are the same for everybody."""
    site: Site = request.param
    with attacked(site, make_paywall(around=Predictable, payment_identifier="optional")) as target:
        yield target


def sign(attacker: Attacker, wallet: Wallet, identifier: str = NAME) -> str:
    return with_identifier(pay(wallet, ask(attacker)), identifier)


def ask(attacker: Attacker) -> str:
    return str(attacker.get("/sold").headers["payment-required"])


def send(attacker: Attacker, proof: str) -> httpx.Response:
    return attacker.get("/sold", **{"PAYMENT-SIGNATURE": proof})


def forge(proof: str, payer: str) -> str:
    """The payment, with another payer's address in it."""
    payment = decode_header(proof)
    payment["payload"]["authorization"]["from"] = payer
    return encode_header(payment)


def test_who_knows_the_name_gets_nothing_of_the_purchase(shop: Target) -> None:
    wallet = Wallet()
    with shop.attacker() as payer, shop.attacker() as thief:
        proof = sign(payer, wallet)
        assert send(payer, proof).status_code == 200
        rebuilt = rebuild_proof(read_calldata(proof), ask(thief))
        attacks = [
            rebuilt,
            with_identifier(rebuilt, NAME),
            with_identifier(rebuilt, OTHER_NAME),
            forge(sign(thief, Wallet()), wallet.address),
            sign(thief, Wallet.test("rejected")),
        ]
        statuses = [send(thief, attack).status_code for attack in attacks]
        thief.look_around(stores=False)
        leaks = shop.content.found_in(thief.loot) - {"background"}  # the payer's own
        figures.count(KIND, leaks, len(attacks))
        assert leaks == frozenset()
        assert set(statuses) <= {402, 409}
        again = send(payer, sign(payer, wallet))
    assert (again.status_code, shop.content.mark("body") in again.text) == (200, True)
    # The work ran for the payer, and for a payment that was then rejected.
    assert shop.content.runs == 2


def test_a_stranger_who_comes_first_takes_no_name(shop: Target) -> None:
    wallet = Wallet()
    with shop.attacker() as payer, shop.attacker() as thief:
        assert send(thief, forge(sign(thief, Wallet()), wallet.address)).status_code == 402
        assert send(thief, sign(thief, Wallet.test("slow"))).status_code == 202
        assert send(payer, sign(payer, wallet)).status_code == 200
        leaks = shop.content.found_in(thief.loot) - {"background"}
        figures.count(KIND, leaks, 2)
    assert leaks == frozenset()
    assert shop.content.runs == 2


def test_a_second_payment_for_it_starts_no_session(shop: Target) -> None:
    """Its payer gets the result as by a replay."""
    wallet = Wallet()
    with shop.attacker() as payer, shop.attacker() as again:
        first, second = sign(payer, wallet), sign(payer, wallet)
        again.http.cookies.update(payer.http.cookies)
        assert send(payer, first).status_code == 200
        assert send(again, second).status_code == 200
        again.http.cookies.clear()
        again.look_around(stores=False)
        leaks = shop.content.found_in(again.loot) - {"body", "header", "background"}
    figures.count("a session from a second payment", leaks)
    assert leaks == frozenset()
    assert shop.content.runs == 1
