"""A purchase from a seller that follows a script: one payment, however often it is sent."""

import json
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from faregate.core.models import Response
from faregate.errors import CommandError, ConfigurationError
from faregate.pay.blocking import BlockingPayer, run_purchase
from faregate.pay.http import SellerClient
from faregate.pay.output import ProgressStep
from faregate.pay.payment_file import PaymentFile, SavedPayment
from faregate.pay.purchase import Purchase, PurchaseResult, SystemClock
from faregate.pay.request import RequestSpec
from faregate.pay.wallet import PayerKey, PayerWallet, load_payer_key
from faregate.x402.payment_identifier import IdentifierUse, declare_identifier, find_identifier
from tests.pay.seller import (
    HASH,
    LIVE_USDC,
    Reply,
    Seller,
    build_402,
    build_json_reply,
    deliver,
    get_instructions,
    require_payment,
)
from tests.support.headers import decode_header

START = datetime(2026, 1, 1, tzinfo=UTC)
OWN = PayerKey("your key", "0x" + "5a" * 32, own=True)
SETTLING = build_json_reply(202, "payment_settling", ("Retry-After", "2"), transaction_id="txn_1")
UNCONFIRMED = build_json_reply(503, "payment_unconfirmed", ("Retry-After", "2"))
IN_PROGRESS = build_json_reply(409, "payment_in_progress", ("Retry-After", "1"))


@dataclass
class FakeClock(SystemClock):
    """Time that passes only while somebody sleeps."""

    slept: list[float] = field(default_factory=list)
    interrupt: bool = False

    def monotonic(self) -> float:
        return sum(self.slept)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def sleep(self, seconds: float) -> None:
        if self.interrupt:
            raise KeyboardInterrupt
        self.slept.append(seconds)


@dataclass
class Run:
    """One purchase that was run."""

    result: PurchaseResult
    steps: list[ProgressStep]
    clock: FakeClock

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.steps]

    @property
    def text(self) -> str:
        return "\n".join(step.text() for step in self.steps)


def run(
    seller: Seller,
    *replies: Reply,
    key: PayerKey | None = None,
    live: bool = False,
    most: str = "1.00",
    wait: float = 60,
    clock: FakeClock | None = None,
    proof: Path | None = None,
    dry: bool = False,
) -> Run:
    seller.script_replies(*replies)
    wallet = PayerWallet(key or load_payer_key("good", None, {}), Decimal(most), live=live)
    request = RequestSpec("GET", seller.url)
    steps: list[ProgressStep] = []
    time = clock or FakeClock()
    with closing(SellerClient(request, 5)) as client:
        payment_file = PaymentFile(request, None if proof is None else str(proof))
        payer = BlockingPayer(client, wallet, time)
        purchase = Purchase(request, payment_file, payer, time, wait, steps.append)
        flow = purchase.show_price(wallet.select_requirements) if dry else purchase.buy()
        result = run_purchase(purchase, flow)
    assert not seller.script, "some replies of the script were never asked for"
    return Run(result, steps, time)


def signed_amounts(seller: Seller) -> list[str]:
    payloads: list[Any] = [decode_header(proof) for proof in seller.proofs]
    return [one["payload"]["authorization"]["value"] for one in payloads]


def test_a_purchase_reports_each_step(seller: Seller) -> None:
    ran = run(seller, require_payment(), deliver())

    assert ran.result.exit == 0
    assert ran.result.response is not None
    assert ran.result.response.body == b"the result"
    assert ran.names == ["asked", "payment_required", "signed", "asked", "answered", "paid", "ended"]
    assert "0.01 USDC on eip155:84532" in ran.text
    assert f"paid: {HASH}" in ran.text
    assert signed_amounts(seller) == ["10000"]


@pytest.mark.parametrize(
    "pending",
    [
        SETTLING,
        UNCONFIRMED,
        IN_PROGRESS,
        None,
        Response(202),
        Response(503, (("Retry-After", "1"),), b"busy"),
        build_json_reply(503, "payment_service_unavailable"),
        build_json_reply(500, "completion_refused", transaction_id="txn_1"),
        *(
            build_json_reply(status, "completion_refused", transaction_id="txn_1")
            for status in (403, 404, 409, 422)
        ),
    ],
    ids=lambda reply: "nothing" if reply is None else f"{reply.status} {reply.body[:24].decode()}",
)
def test_a_pending_payment_is_sent_again(seller: Seller, pending: Reply) -> None:
    ran = run(seller, require_payment(), pending, pending, deliver())

    assert ran.result.exit == 0
    assert len(seller.proofs) == 3
    assert len(set(seller.proofs)) == 1
    assert ran.names.count("signed") == 1
    assert ran.names.count("waiting") == 2


def test_pauses_follow_retry_after(seller: Seller) -> None:
    moment = format_datetime(START + timedelta(seconds=9), usegmt=True)
    dated = build_json_reply(202, "payment_settling", ("Retry-After", moment))
    hasty = build_json_reply(202, "payment_settling", ("Retry-After", "0"))

    ran = run(seller, require_payment(), SETTLING, dated, IN_PROGRESS, Response(202), hasty, deliver())

    assert ran.clock.slept == [2, 7, 1, 1, 0.5]


@pytest.mark.parametrize(
    "moment", ["Fri, 27 Nov 99999999999999999999 10:00:00 GMT", "Fri, 27 Nov 2026 10:00:00 +9999999999999"]
)
def test_a_retry_after_that_overflows_is_not_followed(seller: Seller, moment: str) -> None:
    settling = build_json_reply(202, "payment_settling", ("Retry-After", moment))

    ran = run(seller, require_payment(), settling, deliver())

    assert ran.result.exit == 0
    assert ran.clock.slept == [1]


def test_pauses_never_exceed_the_wait_option(seller: Seller) -> None:
    ran = run(seller, require_payment(), SETTLING, SETTLING, SETTLING, wait=5)

    assert ran.result.exit == 5
    assert ran.clock.slept == [2, 2]
    assert len(set(seller.proofs)) == 1


def test_a_pending_payment_is_saved_for_its_owner_only(seller: Seller, tmp_path: Path) -> None:
    ran = run(seller, require_payment(), SETTLING, wait=0)

    [kept] = tmp_path.glob("faregate-payment-*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"--proof {kept}" in ran.text
    [first] = seller.proofs
    assert first not in ran.text

    again = run(seller, deliver(), proof=kept)

    assert again.result.exit == 0
    assert seller.proofs == [first]
    assert "signed" not in again.names


def test_an_interrupted_wait_saves_the_payment(seller: Seller, tmp_path: Path) -> None:
    ran = run(seller, require_payment(), SETTLING, clock=FakeClock(interrupt=True))

    assert ran.result.exit == 5
    assert [json.loads(kept.read_text())["proof"] for kept in tmp_path.iterdir()] == seller.proofs


def test_any_other_failure_saves_the_payment(seller: Seller, tmp_path: Path) -> None:
    class Broken(FakeClock):
        def sleep(self, seconds: float) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(seller, require_payment(), SETTLING, clock=Broken())
    assert [json.loads(kept.read_text())["proof"] for kept in tmp_path.iterdir()] == seller.proofs


def test_a_payment_is_saved_before_it_is_sent(seller: Seller, tmp_path: Path) -> None:
    named = tmp_path / "payment.json"

    run(seller, require_payment(), UNCONFIRMED, wait=0, proof=named)

    assert json.loads(named.read_text())["proof"] == seller.proofs[0]
    assert named.stat().st_mode & 0o777 == 0o600


def test_a_payment_that_cannot_be_saved_is_not_sent(seller: Seller, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not sent"):
        run(seller, require_payment(), proof=tmp_path / "no" / "such" / "folder")
    assert seller.proofs == []


def test_the_payment_of_another_call_is_not_overwritten(seller: Seller, tmp_path: Path) -> None:
    """Two calls at once, with the same file: the second one sends nothing."""
    named = tmp_path / "payment.json"
    first, second = (PaymentFile(RequestSpec("GET", seller.url), str(named)) for _ in range(2))
    assert (first.load(), second.load()) == (None, None)

    first.save(SavedPayment("first"))

    with pytest.raises(ConfigurationError, match="not sent"):
        second.save(SavedPayment("second"))
    assert json.loads(named.read_text())["proof"] == "first"


def test_a_saved_payment_is_only_sent_with_its_own_request(seller: Seller, tmp_path: Path) -> None:
    kept = tmp_path / "payment.json"
    kept.write_text(json.dumps({"method": "GET", "url": f"{seller.url}/other", "proof": "abc"}))

    with pytest.raises(CommandError, match="not for this request"):
        run(seller, proof=kept)
    assert seller.received == []


def test_a_second_402_ends_the_purchase_with_its_reason(seller: Seller) -> None:
    ran = run(seller, require_payment(), require_payment(reason="the payer has not enough USDC"))

    assert ran.result.exit == 4
    assert ran.steps[-1].text().endswith("the payer has not enough USDC")
    assert len(seller.proofs) == ran.names.count("signed") == 1


def test_the_reason_in_the_body_wins_over_fresh_instructions(seller: Seller) -> None:
    """Fresh instructions are asked for without a payment, and say that one is required."""
    fresh = get_instructions(require_payment(reason="PAYMENT-SIGNATURE header is required"))
    ran = run(
        seller, require_payment(), build_402(fresh, "The payment was not taken, and nothing was charged.")
    )
    assert ran.result.exit == 4
    after = ran.text.partition("with the payment")[2]
    assert after.count("The payment was not taken, and nothing was charged.") == 2
    assert "PAYMENT-SIGNATURE header is required" not in after


def test_a_402_without_a_message_gives_the_reason_in_its_instructions(seller: Seller) -> None:
    bare = Response(402, require_payment(reason="the payer has not enough USDC").headers, b"{}")
    ran = run(seller, require_payment(), bare)
    assert "the payer has not enough USDC" in ran.text.partition("with the payment")[2]


def test_a_402_after_waiting_ends_the_purchase_too(seller: Seller) -> None:
    ran = run(seller, require_payment(), SETTLING, require_payment())

    assert ran.result.exit == 4
    assert len(set(seller.proofs)) == 1


@pytest.mark.parametrize(
    "reply", [build_json_reply(409, "proof_already_used"), build_json_reply(500, "work_failed")]
)
def test_an_error_is_returned_and_not_retried(seller: Seller, reply: Response) -> None:
    ran = run(seller, require_payment(), reply)

    assert (ran.result.exit, ran.result.response and ran.result.response.body) == (6, reply.body)


def test_an_unsuccessful_payment_response_is_reported_as_not_paid(seller: Seller) -> None:
    ran = run(seller, require_payment(), deliver(success=False))

    assert "* not paid" in ran.text


def test_a_free_resource_is_not_paid_for(seller: Seller) -> None:
    ran = run(seller, Response(200, (), b"free"))

    assert ran.result.exit == 0
    assert seller.proofs == []


def test_showing_the_price_signs_nothing(seller: Seller) -> None:
    ran = run(seller, require_payment(), dry=True)

    assert ran.result.exit == 0
    assert "0.01 USDC" in ran.text
    assert "signed" not in ran.names
    assert seller.proofs == []


def test_showing_a_price_above_the_limit_names_the_option(seller: Seller) -> None:
    ran = run(seller, require_payment(amount=1_000_001), dry=True)

    assert ran.result.exit == 3
    assert "--max" in ran.text


def test_the_limit_is_exact(seller: Seller) -> None:
    assert run(seller, require_payment(amount=1_000_000), deliver()).result.exit == 0
    assert run(seller, require_payment(amount=1_000_001)).result.exit == 3
    assert run(seller, require_payment(amount=1_000_001), deliver(), most="1.000001").result.exit == 0
    assert run(seller, require_payment(amount=50_001), most="0.05").result.exit == 3


def test_a_test_payer_signs_for_the_test_network_only(seller: Seller) -> None:
    ran = run(seller, require_payment(LIVE_USDC))

    assert ran.result.exit == 3
    assert "real money" in ran.text
    assert seller.proofs == []


def test_an_own_key_pays_real_money_only_with_live(seller: Seller) -> None:
    refused = run(seller, require_payment(LIVE_USDC), key=OWN)
    assert (refused.result.exit, seller.proofs) == (3, [])
    assert "--live" in refused.text

    paid = run(seller, require_payment(LIVE_USDC), deliver(), key=OWN, live=True)
    assert paid.result.exit == 0
    assert signed_amounts(seller) == ["10000"]


def _require_changed_payment(**fields: Any) -> Response:
    instructions = get_instructions(require_payment())
    instructions["accepts"][0].update(fields)
    return build_402(instructions)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            _require_changed_payment(asset="0x2222222222222222222222222222222222222222"),
            "neither USDC nor EURC",
        ),
        (_require_changed_payment(network="eip155:137"), "network eip155:137 is not supported"),
        (_require_changed_payment(scheme="batch-settlement"), "scheme batch-settlement is not supported"),
        (_require_changed_payment(scheme="upto"), "the seller names none"),
        (_require_changed_payment(amount="-1"), "not a whole number of atomic units"),
        (_require_changed_payment(amount="0.5"), "not a whole number of atomic units"),
        (_require_changed_payment(amount="9" * 78), "above the limit"),
        (_require_changed_payment(amount="9" * 5000), "not a whole number of atomic units"),
        (build_402({"x402Version": 2, "accepts": []}), "no way to pay"),
        (build_402({"x402Version": 1, "accepts": [], "error": "old"}), "version 1"),
        (build_402([]), "cannot be read"),
        (Response(402, (("PAYMENT-REQUIRED", "%%%"),)), "cannot be read"),
        (Response(402), "without exactly one PAYMENT-REQUIRED"),
        (
            require_payment().plus(
                *[pair for pair in require_payment().headers if pair[0] == "PAYMENT-REQUIRED"]
            ),
            "without exactly one",
        ),
    ],
    ids=range(14),
)
def test_a_refusal_to_sign_says_why(seller: Seller, reply: Response, why: str) -> None:
    ran = run(seller, reply)

    assert ran.result.exit == 3
    assert why in ran.text
    assert seller.proofs == []


def test_the_first_acceptable_price_is_paid(seller: Seller) -> None:
    instructions = get_instructions(require_payment(LIVE_USDC))
    dear, cheap = (
        get_instructions(require_payment(amount=amount))["accepts"][0] for amount in (5_000_000, 30_000)
    )
    instructions["accepts"] += [dear, cheap]

    ran = run(seller, build_402(instructions), deliver())

    assert ran.result.exit == 0
    assert signed_amounts(seller) == ["30000"]


def test_a_sellers_text_cannot_control_the_terminal(seller: Seller) -> None:
    ran = run(seller, require_payment(reason="\x1b[2J\x07gone\nsigned: 0 USDC"), deliver())

    assert ran.result.exit == 0
    assert "\x1b" not in ran.text
    assert "\nsigned" not in ran.text


def test_no_redirect_is_followed(seller: Seller) -> None:
    ran = run(seller, require_payment(), Response(302, (("Location", "http://127.0.0.1:1/elsewhere"),)))

    assert ran.result.response is not None
    assert (ran.result.exit, ran.result.response.status) == (0, 302)


def require_named_payment() -> Response:
    """A 402 that offers payers to name their purchases."""
    instructions = get_instructions(require_payment())
    return build_402({**instructions, "extensions": declare_identifier(IdentifierUse.REQUIRED)})


def test_a_purchase_is_named_if_the_seller_offers_it(seller: Seller, tmp_path: Path) -> None:
    kept = tmp_path / "payment"
    run(seller, require_named_payment(), None, proof=kept, wait=0)
    identifier = find_identifier(seller.proofs[0])
    assert json.loads(kept.read_text())["payment_identifier"] == identifier != ""
    run(seller, require_payment(), deliver())
    assert find_identifier(seller.proofs[0]) == ""


def test_a_payment_that_replaces_one_has_its_names(seller: Seller, tmp_path: Path) -> None:
    """The seller may have forgotten, or not told, that the first one was charged."""
    kept = tmp_path / "payment"
    run(seller, require_named_payment(), require_named_payment(), proof=kept)
    first = json.loads(kept.read_text())
    kept.write_text(json.dumps({**first, "valid_until": 1}))
    run(seller, require_named_payment(), None, proof=kept, wait=0)
    second = json.loads(kept.read_text())
    assert second["proof"] != first["proof"]
    for name in ("payment_identifier", "idempotency_key"):
        assert second[name] == first[name]
    assert find_identifier(second["proof"]) == find_identifier(first["proof"]) != ""


def test_two_purchases_have_different_names(seller: Seller) -> None:
    names: set[str] = set()
    for _ in range(2):
        run(seller, require_named_payment(), deliver())
        names.add(find_identifier(seller.proofs[0]))
    assert len(names) == 2
