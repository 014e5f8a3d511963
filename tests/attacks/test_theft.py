"""A settled payment is public. Whoever rebuilds its proof from the chain gets nothing, on no site.

The thief knows the calldata of the settlement and asks for instructions like everybody. The payer, who
comes back after a lost answer or a late settlement, still gets what was paid for.
"""

import itertools
from collections.abc import Generator

import httpx
import pytest

from faregate.emulator import Wallet
from tests.attacks.chain import Predictable, pay, read_calldata, rebuild_proof
from tests.attacks.report import figures
from tests.attacks.site import Attacker, Site, Target, attacked, make_paywall
from tests.attacks.sites import SITES
from tests.support.products import spread

TRIES = 5
CREDENTIALS = {
    "authorization": {"authorization": "Bearer the payer's own token"},
    "cookie": {"cookie": "account=the-payers-own-login; theme=dark"},
    "idempotency-key": {"idempotency-key": "0c5f7c1e-6f0e-4b58-9a8c-1f0a9d1e2b3c"},
}
OTHERS = {
    "authorization": {"authorization": "Bearer somebody else's token"},
    "cookie": {"cookie": "account=somebody-elses-login; theme=dark"},
    "idempotency-key": {"idempotency-key": "1"},
}


def find_framework(site: Site) -> str:
    return site.name.partition("-")[0]


@pytest.fixture(params=spread("predictable", SITES, find_framework), ids=lambda site: site.name)
def predictable(request: pytest.FixtureRequest) -> Generator[Target]:
    """In front of a service whose instructions are the same for everybody."""
    site: Site = request.param
    with attacked(site, make_paywall(around=Predictable)) as target:
        yield target


def steal(target: Target, thief: Attacker, proof: str, **headers: str) -> list[int]:
    """Send what can be rebuilt, and the very same bytes if they come out so."""
    statuses: list[int] = []
    for _ in range(TRIES):
        instructions = thief.get("/sold").headers["payment-required"]
        rebuilt = rebuild_proof(read_calldata(proof), instructions)
        statuses.append(thief.get("/sold", **headers, **{"PAYMENT-SIGNATURE": rebuilt}).status_code)
        thief.look_around(stores=False)
    return statuses


def assert_nothing_stolen(target: Target, attack: str, thief: Attacker) -> None:
    leaks = target.content.found_in(thief.loot) - {"background"}  # the payer's own
    figures.count(attack, leaks, TRIES)
    assert leaks == frozenset()


def test_where_instructions_are_unpredictable_the_proof_cannot_be_rebuilt(target: Target) -> None:
    with target.attacker() as payer, target.attacker() as thief:
        proof = pay(Wallet(), payer.get("/sold").headers["payment-required"])
        assert payer.get("/sold", **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        assert set(steal(target, thief, proof)) <= {402, 409}
        assert_nothing_stolen(target, "theft by a rebuilt proof", thief)
        replays = [payer.get("/sold", **{"PAYMENT-SIGNATURE": proof}) for _ in range(3)]
    assert [(replay.status_code, target.content.mark("body") in replay.text) for replay in replays] == [
        (200, True)
    ] * 3
    assert target.content.runs == 1


def test_where_they_can_be_guessed_nothing_is_delivered_twice_without_credentials(
    predictable: Target,
) -> None:
    with predictable.attacker() as payer, predictable.attacker() as thief:
        proof = pay(Wallet(), payer.get("/sold").headers["payment-required"])
        instructions = thief.get("/sold").headers["payment-required"]
        assert rebuild_proof(read_calldata(proof), instructions) == proof  # so the attack is the real one
        assert payer.get("/sold", **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        assert steal(predictable, thief, proof) == [409] * TRIES
        assert_nothing_stolen(predictable, "theft by the same proof", thief)
    assert predictable.content.runs == 1


@pytest.mark.parametrize(
    "own", [{"cookie": "lang=en; theme=dark"}, {"idempotency-key": "1"}], ids=["cookie", "idempotency-key"]
)
def test_what_a_stranger_can_guess_is_no_credential(predictable: Target, own: dict[str, str]) -> None:
    with predictable.attacker() as payer, predictable.attacker() as thief:
        proof = pay(Wallet(), payer.get("/sold").headers["payment-required"])
        payer.http.cookies.clear()
        assert payer.get("/sold", **own, **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        assert steal(predictable, thief, proof, **own) == [409] * TRIES
        assert_nothing_stolen(predictable, "theft by a guessed credential", thief)
    assert predictable.content.runs == 1


BOUND = list(zip(SITES, itertools.cycle(CREDENTIALS), strict=False))
"""Which request is bound to which credentials is decided in shared code: one kind on each site, in turn."""


@pytest.mark.parametrize(
    ("predictable", "kind"),
    BOUND,
    indirect=["predictable"],
    ids=[f"{site.name}-{kind}" for site, kind in BOUND],
)
def test_a_result_that_is_bound_to_credentials_is_its_payers(predictable: Target, kind: str) -> None:
    own, other = CREDENTIALS[kind], OTHERS[kind]
    with predictable.attacker() as payer, predictable.attacker() as thief:
        proof = pay(Wallet(), payer.get("/sold").headers["payment-required"])
        cookies = httpx.Cookies(payer.http.cookies)
        assert payer.get("/sold", **own, **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        for headers in ({}, other):
            assert steal(predictable, thief, proof, **headers) == [409] * TRIES
        assert_nothing_stolen(predictable, "theft of a bound result", thief)
        replays: list[httpx.Response] = []
        for _ in range(3):
            payer.http.cookies = cookies  # as if the answer had not come
            replays.append(payer.get("/sold", **own, **{"PAYMENT-SIGNATURE": proof}))
    assert [replay.status_code for replay in replays] == [200] * 3
    assert predictable.content.runs == 1


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_thief_who_comes_first_locks_no_payer_out(predictable: Target, kind: str) -> None:
    """The payment settles late: the thief sees it on the chain before its payer comes back."""
    own = CREDENTIALS[kind]
    with predictable.attacker() as payer, predictable.attacker() as thief:
        proof = pay(Wallet.test("reads"), payer.get("/sold").headers["payment-required"])
        assert payer.get("/sold", **own, **{"PAYMENT-SIGNATURE": proof}).status_code == 202
        assert steal(predictable, thief, proof, **OTHERS[kind]) == [409] * TRIES
        assert_nothing_stolen(predictable, "theft of a held result", thief)
        answers = [payer.get("/sold", **own, **{"PAYMENT-SIGNATURE": proof}).status_code for _ in range(4)]
    assert 200 in answers
    assert predictable.content.runs == 1


def test_a_replay_starts_no_session(target: Target) -> None:
    """It may be a copy of the payer's request that somebody else sends again."""
    with target.attacker() as payer, target.attacker() as again:
        proof = pay(Wallet(), payer.get("/sold").headers["payment-required"])
        again.http.cookies.update(payer.http.cookies)
        assert payer.get("/sold", **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        assert again.get("/sold", **{"PAYMENT-SIGNATURE": proof}).status_code == 200
        again.http.cookies.clear()
        again.look_around(stores=False)
        leaks = target.content.found_in(again.loot) - {"body", "header", "background"}
    figures.count("a session from a replay", leaks)
    assert leaks == frozenset()
