"""`faregate pay` as a command: the example seller on one real server, the emulator on another."""

import io
import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.cli import main
from faregate.commands import fill_parser
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve
from faregate.pay.cli import PAY
from faregate.rules.published_payers import TEST_PAYERS
from tests.e2e.example_seller import EXAMPLE, Market, loaded
from tests.pay.seller import Seller, deliver, require_payment
from tests.servers.http import serving

PRIVATE_KEY = "0x" + "5a" * 32
CaptureBytes = pytest.CaptureFixture[bytes]


@pytest.fixture(scope="module")
def shop() -> Generator[Market]:
    """The example's shop. It is shared: look only at what is new."""
    emulator = Emulator()
    with serve(emulator) as service, pytest.MonkeyPatch.context() as environ:
        environ.setenv("FAREGATE_API_KEY", TEST_KEY)
        environ.setenv("FAREGATE_BASE_URL", service)
        module = loaded(EXAMPLE)
        with serving(module.app) as seller:
            yield Market(seller, service, emulator, module)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payments that settle by being read need no time to pass."""
    monkeypatch.setattr("faregate.pay.purchase.SystemClock.sleep", lambda _clock, _seconds: None)


def parse_steps(errors: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in errors.decode().splitlines()]


def test_the_body_is_the_only_thing_on_stdout(shop: Market, capsysbinary: CaptureBytes) -> None:
    before = len(shop.transactions())

    assert main(["pay", f"{shop.seller}/report"]) == 0

    output, errors = capsysbinary.readouterr()
    assert json.loads(output) == {"report": "Sunny, with a chance of receipts."}
    [transaction] = shop.transactions()[before:]
    assert transaction.status == "succeeded"
    assert transaction.receipt is not None
    assert transaction.receipt.payment.payer == TEST_PAYERS["good"].address
    lines = errors.decode().splitlines()
    assert lines[0] == f"> GET {shop.seller}/report"
    assert lines[2].startswith("    0.05 USDC on eip155:84532 to 0x")
    assert f"* paid: {transaction.transaction_hash} on eip155:84532" in errors.decode()


def test_json_prints_one_line_per_step(shop: Market, capsysbinary: CaptureBytes) -> None:
    assert main(["pay", "--json", f"{shop.seller}/report"]) == 0

    errors = parse_steps(capsysbinary.readouterr().err)
    names = ["asked", "payment_required", "signed", "asked", "answered", "paid", "ended"]
    assert [one["step"] for one in errors] == names
    assert errors[1]["accepts"] == [
        {
            "amount": "0.05 USDC",
            "atomic": "50000",
            "scheme": "exact",
            "network": "eip155:84532",
            "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            "pay_to": shop.emulator.account.seller.pay_to,
        }
    ]
    assert errors[-1]["exit"] == 0


@pytest.mark.parametrize("payer", ["reads", "reconciles"])
def test_a_payment_that_settles_late_is_paid_once(
    shop: Market, payer: str, capsysbinary: CaptureBytes
) -> None:
    before = len(shop.transactions())

    assert main(["pay", "--payer", payer, f"{shop.seller}/report"]) == 0

    output, errors = capsysbinary.readouterr()
    assert json.loads(output) == {"report": "Sunny, with a chance of receipts."}
    assert b"the payment is pending; sending the same payment again in" in errors
    assert [one.status for one in shop.transactions()[before:]] == ["succeeded"]


@pytest.mark.parametrize(
    ("payer", "message", "statuses"),
    [
        ("poor", b"has not enough USDC", []),
        ("rejected", b"nothing was charged", ["failed"]),
        ("reconciles-fails", b"402 again", ["failed"]),
    ],
)
def test_a_failed_payment_exits_4_and_no_other_is_signed(
    shop: Market, payer: str, message: bytes, statuses: list[str], capsysbinary: CaptureBytes
) -> None:
    before = len(shop.transactions())

    assert main(["pay", "--payer", payer, f"{shop.seller}/report"]) == 4

    output, errors = capsysbinary.readouterr()
    assert output == b""
    assert message in errors
    assert errors.count(b"* signed") == 1
    assert b"header is required" not in errors.partition(b"* signed")[2]
    assert [one.status for one in shop.transactions()[before:]] == statuses


def test_the_next_call_fetches_the_result_of_a_pending_payment(
    shop: Market, tmp_path: Path, capsysbinary: CaptureBytes
) -> None:
    before, kept = len(shop.transactions()), tmp_path / "payment.json"
    words = ["pay", "--payer", "reads", "--wait", "0", "--proof", str(kept), f"{shop.seller}/report"]

    assert main(words) == 5
    output, errors = capsysbinary.readouterr()
    assert output == b""
    assert f"--proof {kept}".encode() in errors

    codes = [main(words) for _ in range(2)]

    output, errors = capsysbinary.readouterr()
    assert codes == [5, 0]
    assert json.loads(output) == {"report": "Sunny, with a chance of receipts."}
    assert b"* signed" not in errors
    assert not kept.exists()
    assert [one.status for one in shop.transactions()[before:]] == ["succeeded"]


def test_eurc_is_paid_too(shop: Market, capsysbinary: CaptureBytes) -> None:
    assert main(["pay", f"{shop.seller}/euro"]) == 0
    assert b"0.01 EURC" in capsysbinary.readouterr().err


@pytest.mark.parametrize("source", ["text", "file", "stdin"])
def test_data_is_posted(
    shop: Market, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: CaptureBytes
) -> None:
    text = '{"text": "one two three four five six"}'
    (tmp_path / "f").write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    data = {"text": text, "file": f"@{tmp_path / 'f'}", "stdin": "@-"}[source]

    assert main(["pay", f"{shop.seller}/summary", "--data", data]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"summary": "one two three four five"}


def test_method_and_headers_are_sent_each_time(seller: Seller, capsysbinary: CaptureBytes) -> None:
    body = bytes(range(256))
    seller.script_replies(require_payment(), deliver(body))

    words = ["pay", seller.url, "-X", "put", "-d", "a=b", "-H", "X-Who: me", "-H", "Authorization: Bearer x"]
    assert main(words) == 0

    assert capsysbinary.readouterr().out == body
    assert [one.method for one in seller.received] == ["PUT", "PUT"]
    assert [(one.headers["x-who"], one.headers["authorization"]) for one in seller.received] == [
        ("me", "Bearer x")
    ] * 2
    assert [(one.body, one.headers["content-type"]) for one in seller.received] == [
        (b"a=b", "application/x-www-form-urlencoded")
    ] * 2
    assert [one.proof is not None for one in seller.received] == [False, True]
    assert {one.headers["accept-encoding"] for one in seller.received} == {"identity"}


def test_failed_work_exits_6_and_is_not_charged(shop: Market, capsysbinary: CaptureBytes) -> None:
    before = len(shop.transactions())

    assert main(["pay", f"{shop.seller}/broken"]) == 6

    assert json.loads(capsysbinary.readouterr().out) == {"detail": "the printer is out of paper"}
    assert [one.status for one in shop.transactions()[before:]] == ["failed"]


@pytest.mark.parametrize(("path", "code"), [("notes", 0), ("health", 0), ("nothing", 6)])
def test_a_response_without_a_price_is_not_paid_for(
    shop: Market, path: str, code: int, capsysbinary: CaptureBytes
) -> None:
    before = len(shop.transactions())

    assert main(["pay", f"{shop.seller}/{path}"]) == code

    assert b"* signed" not in capsysbinary.readouterr().err
    assert len(shop.transactions()) == before


def test_a_dry_run_shows_the_price_and_pays_nothing(shop: Market, capsysbinary: CaptureBytes) -> None:
    before = len(shop.transactions())

    assert main(["pay", "--dry-run", f"{shop.seller}/report"]) == 0
    assert main(["pay", "--dry-run", "--max", "0.04", f"{shop.seller}/report"]) == 3

    output, errors = capsysbinary.readouterr()
    assert (output, errors.count(b"0.05 USDC on")) == (b"", 2)
    assert len(shop.transactions()) == before


def test_include_and_output(shop: Market, tmp_path: Path, capsysbinary: CaptureBytes) -> None:
    file = tmp_path / "report"

    assert main(["pay", f"{shop.seller}/report", "--include", "--output", str(file)]) == 0

    assert capsysbinary.readouterr().out == b""
    head, _, body = file.read_bytes().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP 200 OK\r\n")
    assert b"payment-response: " in head
    assert json.loads(body) == {"report": "Sunny, with a chance of receipts."}


def test_an_unwritable_output_file_stops_the_call_before_paying(
    seller: Seller, tmp_path: Path, capsysbinary: CaptureBytes
) -> None:
    assert main(["pay", seller.url, "--output", str(tmp_path / "no" / "folder")]) == 1

    assert b"no request was sent" in capsysbinary.readouterr().err
    assert seller.received == []


def test_a_result_that_could_not_be_written_can_be_fetched_again(
    shop: Market, tmp_path: Path, capsysbinary: CaptureBytes
) -> None:
    before = len(shop.transactions())

    assert main(["pay", f"{shop.seller}/report", "--output", "/dev/full"]) == 1

    [kept] = tmp_path.glob("faregate-payment-*.json")
    assert f"Nothing is lost: fetch it again with --proof {kept}".encode() in capsysbinary.readouterr().err
    assert main(["pay", f"{shop.seller}/report", "--proof", str(kept)]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"report": "Sunny, with a chance of receipts."}
    assert len(shop.transactions()) == before + 1


@pytest.mark.parametrize("source", ["file", "environment"])
def test_an_own_key_pays_and_is_not_shown(
    shop: Market, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: CaptureBytes
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{PRIVATE_KEY[2:]}\n")
    if source == "environment":
        monkeypatch.setenv("FAREGATE_PAYER_KEY", PRIVATE_KEY)

    words = ["--key-file", str(file)] if source == "file" else []
    assert main(["pay", "--json", f"{shop.seller}/report", *words]) == 0

    output, errors = capsysbinary.readouterr()
    assert Wallet(PRIVATE_KEY).address.encode() in errors
    assert PRIVATE_KEY[2:].encode() not in output + errors


def test_a_named_test_payer_wins_over_the_environment(
    shop: Market, monkeypatch: pytest.MonkeyPatch, capsysbinary: CaptureBytes
) -> None:
    monkeypatch.setenv("FAREGATE_PAYER_KEY", PRIVATE_KEY)

    assert main(["pay", "--payer", "good", f"{shop.seller}/report"]) == 0
    assert TEST_PAYERS["good"].address.encode() in capsysbinary.readouterr().err


def test_an_invalid_key_is_not_repeated_in_the_error(
    seller: Seller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: CaptureBytes
) -> None:
    file = tmp_path / "key"
    for text in ("a-secret-that-is-no-key", "5a" * 31, "0" * 64, "schlüssel"):
        file.write_text(text)
        monkeypatch.setenv("FAREGATE_PAYER_KEY", text)
        assert main(["pay", seller.url, "--key-file", str(file)]) == 1
        assert main(["pay", seller.url]) == 1
        errors = capsysbinary.readouterr().err
        assert errors.count(b"does not contain a private key") == 2
        assert text.encode() not in errors
    assert seller.received == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["URL", "--payer", "nobody"], b"Choose one of: good, slow"),
        (["URL", "--live"], b"a key of your own"),
        (["URL", "-H", "PAYMENT-SIGNATURE: abc"], b"--proof"),
        (["URL", "-H", "no colon"], b"is not a header"),
        (["URL", "-H", "A: b\r\nC: d"], b"is not a header"),
        (["URL", "-d", "@/no/such/file"], b"cannot be read"),
        (["ftp://seller.example/x"], b"http or https"),
        (["seller.example"], b"http or https"),
        (["http://[::1/x"], b"URL"),
    ],
)
def test_a_usage_error_exits_2(
    seller: Seller, words: list[str], message: bytes, capsysbinary: CaptureBytes
) -> None:
    assert main(["pay", *[seller.url if word == "URL" else word for word in words]]) == 2

    assert message in capsysbinary.readouterr().err
    assert seller.received == []


@pytest.mark.parametrize("words", [["--max", "0"], ["--max", "NaN"], ["--max", "1e99"], ["--wait", "-1"]])
def test_invalid_numbers_exit_2(words: list[str], capsysbinary: CaptureBytes) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pay", "http://127.0.0.1:1/", *words])
    assert ended.value.code == 2


def test_an_unreachable_seller_exits_1(capsysbinary: CaptureBytes) -> None:
    assert main(["pay", "http://user:pass@127.0.0.1:1/"]) == 1

    errors = capsysbinary.readouterr().err
    assert b"no response from 127.0.0.1:1: " in errors
    assert b"pass" not in errors


def test_the_page_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pay.md").read_text()
    parser = ArgumentParser()
    fill_parser(parser, PAY)
    options = [option for action in parser._actions for option in action.option_strings]
    assert [option for option in options if f"`{option}" not in page and option not in ("-h", "--help")] == []


def test_a_missing_package_names_the_extra() -> None:
    code = """
import sys
from faregate.cli import main
for packages in (["x402"], ["eth_account"], ["x402", "eth_account", "eth_keys"]):
    sys.modules.update(dict.fromkeys(packages))
    assert main(["pay", "http://127.0.0.1:1/"]) == 2
    assert main(["probe"]) == 2
    for package in packages:
        del sys.modules[package]
main(["pay", "--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr.count("pip install 'faregate[pay]'")) == (0, 6), done.stderr
    assert "--dry-run" in done.stdout
