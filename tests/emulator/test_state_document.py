"""The state document: what comes back from it cannot be told from what it was taken of."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest

from faregate.core.models import Response
from faregate.emulator import (
    TEST_PAYERS,
    Emulator,
    ManualClock,
    Revision,
    SeededIds,
    Seller,
    SettlementRule,
    Wallet,
)
from faregate.emulator.faults import Fault
from faregate.errors import ConfigurationError
from faregate.rules.builtin_account import builtin_account
from faregate.x402.tokens import TOKENS
from tests.support.headers import decode_header, encode_header

from .load import Seller as Hands
from .seller import Json


@dataclass
class Player:
    """Plays a scenario, and remembers the answers; all of it is the same every time."""

    emulator: Emulator
    bought: dict[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])
    heard: list[Response | None] = field(default_factory=list[Response | None])

    def call(self, method: str, path: str, body: object = None, proof: str = "") -> Response:
        return Hands(self.emulator).call(method, path, body, proof)

    def access(self, resource: str, proof: str = "") -> tuple[Response, str]:
        revision = self.emulator.revision_id(resource)
        body = {
            "revision_id": revision,
            "resource": {"url": f"https://seller.example/{resource}", "mime_type": "text/plain"},
            "settlement_asset": "USDC",
        }
        return self.call("POST", "/access", body, proof), revision


Step = Callable[[Player], Response | None]


def buy(name: str, payer: str, resource: str = "text_summary") -> Step:
    def step(player: Player) -> Response:
        instructions = player.access(resource)[0].first("payment-required")
        assert instructions
        key = "0x" + sha256(payer.encode()).hexdigest()
        clock = player.emulator.clock
        wallet = Wallet(key, clock=clock) if payer.startswith("own") else Wallet.test(payer, clock=clock)
        proof = wallet.pay(instructions, nonce="0x" + sha256(name.encode()).hexdigest())
        answer, revision = player.access(resource, proof)
        if answer.status == 200:
            player.bought[name] = json.loads(answer.body)["transaction_id"], proof, revision
        return answer

    return step


def again(name: str, resource: str = "text_summary") -> Step:
    return lambda player: player.access(resource, player.bought[name][1])[0]


def report_outcome(name: str, **outcome: object) -> Step:
    def step(player: Player) -> Response:
        identifier, proof, revision = player.bought[name]
        body = {"revision_id": revision, **outcome}
        return player.call("POST", f"/transactions/{identifier}/complete", body, proof)

    return step


def complete(name: str, values: Json | None = None) -> Step:
    return report_outcome(name, outcome="succeeded", values=values or {})


def fail(name: str) -> Step:
    return report_outcome(name, outcome="failed", failure_code="no_luck")


def read(name: str) -> Step:
    return lambda player: player.call("GET", f"/transactions/{player.bought[name][0]}")


def get(path: str) -> Step:
    return lambda player: player.call("GET", path)


def do(act: Callable[[Emulator], object]) -> Step:
    def step(player: Player) -> None:
        act(player.emulator)

    return step


def advance(seconds: float) -> Step:
    return do(lambda emulator: emulator.clock.advance(seconds))


def free(name: str) -> Step:
    def step(player: Player) -> Response:
        answer, revision = player.access("free_notes")
        player.bought[name] = json.loads(answer.body)["resource_execution_id"], "", revision
        return answer

    return step


def close(name: str, status: int) -> Step:
    def step(player: Player) -> Response:
        identifier, _, revision = player.bought[name]
        body = {"revision_id": revision, "resource_execution": {"response_status": status}}
        return player.call("POST", f"/resource-executions/{identifier}/complete", body)

    return step


OWN = Wallet("0x" + sha256(b"own a").hexdigest()).address
MORNING = "as_of=2026-01-01T00:00:00Z"
SCENARIO: list[Step] = [
    buy("open", "good"),
    buy("slow", "slow"),
    complete("slow"),
    get(f"/transactions?{MORNING}&page_size=1"),
    buy("late", "good"),
    get(f"/transactions?{MORNING}&page_size=1&page=2"),
    buy("reads", "reads"),
    complete("reads"),
    read("reads"),
    buy("expires", "expires"),
    complete("expires"),
    buy("good", "good"),
    complete("good", {"input-tokens": "12.5"}),
    do(lambda emulator: emulator.set_balance(OWN, 15_000)),
    buy("mine", "own a"),
    buy("too much", "own a"),
    fail("late"),
    free("free"),
    close("free", 200),
    free("free too"),
    do(lambda emulator: emulator.settle_after("*", SettlementRule(after_seconds=30, via="reconciling"))),
    do(lambda emulator: emulator.settle_after("euro_report", SettlementRule(manual=True))),
    do(lambda emulator: emulator.settle_after(OWN, SettlementRule(after_reads=1))),
    buy("all", "own b"),
    complete("all"),
    do(lambda emulator: emulator.archive("daily_report")),
    do(lambda emulator: emulator.publish("text_summary", Revision(amount=7_000, name="Cheaper"))),
    do(lambda emulator: emulator.require_payment("token_meter", required=False)),
    do(lambda emulator: emulator.faults.add(Fault(kind="status", status=503, times=2, operation="payers"))),
    get("/payers"),
    buy("cheap", "own b"),
    complete("cheap"),
    advance(1.5),
    get("/transactions?status=settling"),
    complete("mine"),
    complete("mine"),
    again("open"),
    again("good"),
    complete("good"),
    complete("good", {"input-tokens": "12.5"}),
    close("free", 201),
    close("free too", 204),
    read("reads"),
    advance(0.5),
    read("slow"),
    get("/payers"),
    do(lambda emulator: emulator.settle_after("*", None)),
    buy("mine too", "own a"),
    advance(30),
    get("/transactions?status=reconciling"),
    get("/payers"),
    get(f"/payers?{MORNING}"),
    get("/resources?archived=true"),
    get("/resources"),
    get("/contracts?include_integration_key=true"),
    advance(40),
    complete("open"),
    get("/transactions?order=oldest"),
    get("/transactions?status=succeeded&page_size=2&page=2"),
]


def begun() -> Emulator:
    return Emulator(clock=ManualClock(), seed=7, expose_execution_id=True)


def restored(emulator: Emulator) -> Emulator:
    """Another one, from the text of the first one's document."""
    other = begun()
    other.load_state(json.dumps(emulator.export()))
    return other


def played(steps: list[Step]) -> Player:
    player = Player(begun())
    play(player, steps)
    return player


def play(player: Player, steps: list[Step]) -> None:
    player.heard.extend(step(player) for step in steps)


def test_a_story_goes_on_as_if_it_had_not_been_interrupted() -> None:
    """The first is interrupted nowhere, the others after each step."""
    whole = played(SCENARIO)
    first = Player(begun())
    for cut in range(len(SCENARIO)):
        second = Player(restored(first.emulator), dict(first.bought))
        if cut % 4 == 0:
            play(second, SCENARIO[cut:])
            assert second.heard == whole.heard[cut:]
            assert second.emulator.export() == whole.emulator.export()
        else:
            play(second, SCENARIO[cut : cut + 4])
            assert second.heard == whole.heard[cut : cut + 4]
        play(first, SCENARIO[cut : cut + 1])
    statuses = {answer.status for answer in whole.heard if answer}
    assert statuses == {200, 202, 402, 409, 503}


def test_the_document_of_what_came_back_is_the_same() -> None:
    emulator = played(SCENARIO[:40]).emulator
    document = emulator.export()
    assert restored(emulator).export() == document == emulator.export()
    assert json.loads(json.dumps(document)) == document
    assert document["version"] == 1


def test_a_snapshot_rewinds_everything_but_the_calls() -> None:
    player = Player(begun())
    play(player, SCENARIO[:20])
    assert player.emulator.snapshot() == "snapshot-1"
    bought, calls = dict(player.bought), len(player.emulator.calls())
    play(player, SCENARIO[20:])
    first, heard = player.emulator.export(), player.heard[20:]
    player.emulator.restore("snapshot-1")
    assert len(player.emulator.calls()) > calls
    player.heard, player.bought = [], bought
    play(player, SCENARIO[20:])
    assert player.heard == heard
    assert player.emulator.export() == first


def test_reset_is_the_tenant_as_it_was_set_up() -> None:
    fresh = begun()
    before = fresh.export()
    player = Player(fresh)
    play(player, SCENARIO)
    first = player.heard
    fresh.snapshot("kept")
    assert fresh.export() != before
    fresh.reset()
    assert fresh.export() == before
    assert (fresh.calls(), fresh.snapshots) == ([], [])
    again = Player(fresh)
    play(again, SCENARIO)
    assert again.heard == first


def test_a_broken_rewinding_changes_nothing() -> None:
    emulator = played(SCENARIO[:30]).emulator
    before = emulator.export()
    document = deepcopy(before)
    document["clock"]["simulated"] = "2030-01-01T00:00:00Z"
    document["live"]["payers"] = document["test"]["payers"]
    with pytest.raises(ConfigurationError, match=r"live\.payers"):
        emulator.load_state(document)
    assert emulator.export() == before


def test_a_seed_of_a_few_lines() -> None:
    emulator = played(SCENARIO[:10]).emulator
    use = {"environment": "test", "asset": "USDC", "address": OWN, "balance": "5"}
    emulator.load_state(
        {"version": 1, "ledger": {"balances": [use]}, "test": {"settlement": {"manual": True}}}
    )
    assert emulator.balance(OWN) == 5
    assert emulator.balance(Wallet.test("slow").address) == 10**12
    assert emulator.export()["test"]["transactions"] == []
    player = Player(emulator)
    play(player, [buy("a", "own b"), complete("a")])
    assert [one.status for one in player.heard if one] == [200, 202]


def test_a_rule_that_was_taken_back_stays_so() -> None:
    late = builtin_account().model_copy(update={"settlement": SettlementRule(manual=True)})
    emulators = [Emulator(late, clock=ManualClock(), seed=1) for _ in range(2)]
    emulators[0].settle_after("*", None)
    emulators[0].settle_after(TEST_PAYERS["slow"].address, None)
    emulators[1].load_state(emulators[0].export())
    player = Player(emulators[1])
    play(player, [buy("a", "slow"), complete("a")])
    assert [one.status for one in player.heard if one] == [200, 200]


def test_the_ids_of_a_seed_are_always_the_same() -> None:
    assert played(SCENARIO[:3]).bought == played(SCENARIO[:3]).bought
    assert Emulator(seed="x", clock=ManualClock()).export()["ids"] == 0
    assert Emulator().export()["ids"] is None
    with pytest.raises(ConfigurationError, match="not both"):
        Emulator(seed=1, ids=SeededIds(1))


def test_proofs_of_any_json_come_back() -> None:
    """What a payer adds to the payload is kept, whatever it is: not every Python value is strict JSON."""
    player = played([buy("a", "good")])
    identifier = player.bought["a"][0]
    document = player.emulator.export()
    record = document["test"]["transactions"][0]
    proof = padded(record["proof"], {"x": "\ud800", "y": float("nan"), "z": float("inf")})
    record["proof"] = proof
    player.bought["a"] = (identifier, proof, player.bought["a"][2])
    other = begun()
    other.load_state(json.dumps(document))
    assert other.export()["test"]["transactions"][0]["proof"] == record["proof"]
    assert Player(other, player.bought).call("GET", f"/transactions/{identifier}").status == 200
    assert complete("a")(Player(other, player.bought)).status == 200  # type: ignore[union-attr]


def padded(proof: str, more: Json) -> str:

    payload: Json = decode_header(proof)
    return encode_header({**payload, "extra": more})


MOST = 10**30 - 1
"""What an address can be given. What it is paid comes on top of it."""


@pytest.mark.parametrize("given", [MOST, 10**40], ids=["30 digits", "41 digits"])
def test_a_balance_of_more_than_30_digits_comes_back(given: int) -> None:
    emulator = begun()
    seller = emulator.account.seller.pay_to
    emulator.set_balance(seller, MOST)
    if given > MOST:
        emulator.ledger.set_balance(TOKENS["test", "USDC"], seller, given)  # type: ignore[attr-defined]
    player = Player(emulator)
    play(player, [buy("a", "good"), complete("a")])
    assert emulator.balance(seller) == given + 10_000
    before = emulator.snapshot()
    other = restored(emulator)
    assert other.balance(seller) == given + 10_000
    assert other.export() == emulator.export()
    emulator.restore(before)
    assert emulator.balance(seller) == given + 10_000


@pytest.mark.parametrize("balance", ["-1", "01", "1.0", "", " 1", "\u0661", "1e3", None, str(2**256)])
def test_a_balance_that_no_token_has_is_refused(balance: object) -> None:
    use = {"environment": "test", "asset": "USDC", "address": OWN, "balance": balance}
    with pytest.raises(ConfigurationError, match=r"ledger\.balances\[0\]\.balance"):
        begun().load_state(json.dumps({"version": 1, "ledger": {"balances": [use]}}))


def test_only_the_bytes_that_were_sent_are_the_proof_after_a_restart() -> None:
    player = played([buy("a", "good")])
    proof = player.bought["a"][1]
    other = Player(restored(player.emulator), dict(player.bought))
    assert other.emulator.export()["test"]["transactions"][0]["proof"] == proof
    assert other.access("text_summary", padded(proof, {}))[0].status == 402
    again = other.access("text_summary", proof)[0]
    assert (again.status, json.loads(again.body)) == (200, {"transaction_id": player.bought["a"][0]})


def test_a_402_moves_no_ids() -> None:
    """However often a seller asks what to pay, the same scenario has the same ids."""
    unpaid: Step = lambda player: player.access("text_summary")[0]  # noqa: E731
    often, once = played([unpaid] * 5 + [buy("a", "good")]), played([buy("a", "good")])
    assert often.bought["a"][0] == once.bought["a"][0]


def test_snapshots_have_names() -> None:
    emulator = begun()
    assert [emulator.snapshot("a"), emulator.snapshot(), emulator.snapshot("a")] == ["a", "snapshot-1", "a"]
    assert emulator.snapshots == ["snapshot-1", "a"]
    with pytest.raises(ConfigurationError, match="no snapshot 'b'; there are: snapshot-1, a"):
        emulator.restore("b")
    with pytest.raises(ConfigurationError, match="1 to 100 letters"):
        emulator.snapshot("../a")
    for number in range(98):
        emulator.snapshot(f"n{number}")
    with pytest.raises(ConfigurationError, match="100 snapshots"):
        emulator.snapshot()
    assert emulator.snapshot("a") == "a"


def test_another_seller_or_price_is_another_tenant() -> None:
    document = played(SCENARIO[:3]).emulator.export()
    builtin = builtin_account()
    other = builtin.model_copy(update={"seller": Seller(name="Somebody else")})
    with pytest.raises(ConfigurationError, match="seller: this tenant is that of Somebody else"):
        Emulator(other).load_state(document)
    sold = builtin.resources[0].model_copy(update={"revisions": (Revision(amount=1),)})
    dearer = builtin.model_copy(update={"resources": (sold, *builtin.resources[1:])})
    with pytest.raises(
        ConfigurationError, match=r"test\.resources\[0\]\.revisions\[0\]: revision 1 is another"
    ):
        Emulator(dearer).load_state(document)
    fewer = builtin.model_copy(update={"resources": builtin.resources[1:]})
    with pytest.raises(
        ConfigurationError, match=r"resources\[0\]\.key: this tenant has no resource 'text_summary'"
    ):
        Emulator(fewer).load_state(document)


def test_a_tenant_may_have_more_than_the_document() -> None:
    document = played(SCENARIO[:3]).emulator.export()
    builtin = builtin_account()
    revisions = (*builtin.resources[0].revisions, Revision(amount=1))
    sold = builtin.resources[0].model_copy(update={"revisions": revisions})
    new = builtin.resources[1].model_copy(update={"key": "new"})
    grown = Emulator(builtin.model_copy(update={"resources": (sold, *builtin.resources[1:], new)}))
    grown.load_state(document)
    assert len(grown.export()["test"]["resources"][0]["revisions"]) == 2
    assert len(grown.export()["test"]["transactions"]) == 2


Change = Callable[[Any], object]


def first(document: Json) -> Any:
    return document["test"]["transactions"][0]


def second(document: Json) -> Any:
    return document["test"]["transactions"][1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=2), "version: "),
        (lambda d: d.pop("version"), "version: Field required"),
        (lambda d: d.update(more=1), "more: Extra inputs"),
        (lambda d: first(d).update(id="txn_1"), r"test\.transactions\[0\]\.id: "),
        (lambda d: first(d).update(payer=second(d)["payer"][:-4] + "0000"), r"\[0\]\.payer: .* not among"),
        (lambda d: first(d).update(proof="????"), r"\[0\]\.proof: .* not base64"),
        (lambda d: first(d).update(proof="MQ=="), r"\[0\]\.proof: .* not base64"),
        (lambda d: first(d).update(proof=second(d)["proof"]), r"\[1\]\.proof: another .* used"),
        (lambda d: first(d).update(id=second(d)["id"]), r"\[1\]\.id: another"),
        (lambda d: first(d).update(history=[]), r"\[0\]\.history: "),
        (lambda d: first(d)["history"][0].update(status="failed"), r"\[0\]: a history begins"),
        (lambda d: first(d)["history"][0].update(status="lost"), r"history\[0\]\.status"),
        (lambda d: first(d)["history"][0].update(at="2026-01-01"), r"history\[0\]\.at"),
        (lambda d: first(d)["history"][0].update(at="9999-01-01T00:00:00Z"), r"at: time ends"),
        (lambda d: first(d)["history"][0].update(at="0001-01-01T00:00:00+10:00"), r"at: there is no"),
        (lambda d: second(d)["history"][1].update(at="2025-01-01T00:00:00Z"), "from earlier to later"),
        (lambda d: second(d)["history"][1].update(status="succeeded"), "has settled if it succeeded"),
        (lambda d: second(d).update(due=None), r"\[1\]\.due: "),
        (lambda d: first(d).update(due="2026-01-01T00:00:00Z"), r"\[0\]\.due: "),
        (lambda d: d["test"]["transactions"].reverse(), r"test\.payers: they are in the order"),
        (lambda d: d["test"]["transactions"].pop(), r"test\.payers: "),
        (lambda d: d["test"]["payers"].append(d["test"]["payers"][0]), r"payers\[2\]: .* twice"),
        (lambda d: d["live"].update(transactions=[first(d)]), r"live\.transactions\[0\]\.payer"),
        (
            lambda d: d["live"].update(transactions=[first(d)], payers=d["test"]["payers"][:1]),
            r"live\.transactions\[0\]\.request\.revision_id: this tenant has no revision",
        ),
        (lambda d: d["clock"].update(rate=-1), r"clock\.rate: "),
        (lambda d: d["clock"].update(simulated="9500-01-01T00:00:00Z"), "time ends"),
        (lambda d: d.update(ids=-1), "ids: "),
        (lambda d: d["ledger"]["balances"][0].update(balance="-1"), r"balances\[0\]\.balance"),
        (lambda d: d["ledger"]["balances"][0].update(address="me"), r"balances\[0\]\.address"),
        (
            lambda d: d["test"].update(
                executions=[{"id": "rex_" + first(d)["id"][4:], "revision_id": "acr_1"}]
            ),
            r"executions\[0\]\.revision_id",
        ),
    ],
)
def test_an_error_in_a_document_names_its_place(change: Change, words: str) -> None:
    document = played(SCENARIO[:3]).emulator.export()
    change(document)
    emulator = begun()
    before = emulator.export()
    with pytest.raises(ConfigurationError, match=words):
        emulator.load_state(document)
    assert emulator.export() == before


def test_a_later_transaction_that_was_made_earlier() -> None:
    document = played([*SCENARIO[:1], advance(5), *SCENARIO[4:5]]).emulator.export()
    document["test"]["transactions"].reverse()
    with pytest.raises(ConfigurationError, match=r"\[1\]\.history\[0\]\.at: transactions are in the order"):
        begun().load_state(document)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", b"\xff", '"a"'])
def test_what_is_no_document_at_all(text: str | bytes) -> None:
    with pytest.raises(ConfigurationError, match="this is no state document"):
        begun().load_state(text)


def test_what_is_no_balance_is_refused() -> None:
    emulator = begun()
    with pytest.raises(ConfigurationError, match="must be an address"):
        emulator.set_balance("me", 1)
    for balance in (-1, 10**30):
        with pytest.raises(ConfigurationError, match="a balance is 0 to"):
            emulator.set_balance(OWN, balance)
