"""`faregate check URL`: what keeps a seller from being listed, each fault with a seller that has it."""

import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from faregate.cli import main
from faregate.core.models import Headers, Response
from faregate.errors import CommandError, NoAnswer
from faregate.merchant.models import AccessResource
from faregate.routes import crawler_check
from faregate.routes.crawler_check import CrawlerReport, check_url
from faregate.x402.discovery import Described, amend
from faregate.x402.headers import build_payment_required
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS
from tests.servers.http import serving_wsgi
from tests.support.headers import decode_header, encode_header

SHOP = "https://shop.example"
URL = f"{SHOP}/report"
PRICE = {"mode": "fixed", "currency": "USD", "amount": "0.01"}
INFO = {"protocols": [{"x402": {}}], "price": PRICE}
NO_STORE = ("Cache-Control", "private, no-store")


def build_instructions(url: str = URL, environment: Any = "live", method: str = "GET") -> str:
    terms = Terms(TOKENS[environment, "USDC"], 10_000, "0x" + "11" * 20, 60)
    resource = AccessResource(url=url, mime_type="application/json", description="The weather")
    return amend(
        build_payment_required(terms, resource, "pay first", "ab" * 32), Described(method, "/report")
    )


def change_instructions(change: Callable[[Any], object], **build: Any) -> str:
    required = decode_header(build_instructions(**build))
    change(required)
    return encode_header(required)


def ask_payment(instructions: str | None = None, *headers: tuple[str, str]) -> Response:
    shown: Headers = (("PAYMENT-REQUIRED", build_instructions() if instructions is None else instructions),)
    return Response(402, (*(shown if instructions != "" else ()), *(headers or (NO_STORE,))))


def write_document(**paths: Any) -> Response:
    content = {"openapi": "3.1.0", "paths": {f"/{name}": item for name, item in paths.items()}}
    return Response(200, (), json.dumps(content).encode())


Shop = dict[tuple[str, str], Response | Exception]


@pytest.fixture
def shop() -> Shop:
    """A seller who can be listed."""
    return {
        ("GET", "/report"): ask_payment(),
        ("HEAD", "/report"): ask_payment(),
        ("GET", "/openapi.json"): write_document(report={"get": {"x-payment-info": INFO}}),
        ("GET", "/llms.txt"): Response(200, (), b"GET /report: The weather"),
    }


def check(shop: Shop, url: str = URL) -> CrawlerReport:
    def send(method: str, url: str) -> Response:
        assert url.startswith(SHOP)
        reply = shop.get((method, url.removeprefix(SHOP)), Response(404))
        if isinstance(reply, Exception):
            raise reply
        return reply

    return check_url(url, send)


@pytest.mark.parametrize("url", [URL, SHOP, f"{SHOP}/"])
def test_a_good_seller_can_be_listed(shop: Shop, url: str) -> None:
    report = check(shop, url)

    assert (report.faults, report.notes) == ([], [])
    assert report.sold == [f"GET {URL}"]


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Response(200), "answered with 200, without parameters, body and payment: it is not sold"),
        (Response(307), "a crawler follows no redirect"),
        (Response(422), "the request is checked before its price"),
        (Response(401), "a login stands in front"),
        (Response(404), "no such route"),
        (Response(502), "see the log"),
        (Response(429), "it does not ask for a payment"),
        (NoAnswer("GET /report: no answer: refused"), "no answer: refused"),
        (ask_payment(""), "without exactly one PAYMENT-REQUIRED"),
        (ask_payment("no base64"), "not base64 of JSON of x402 version 2"),
        (ask_payment(encode_header([1])), "not base64 of JSON of x402 version 2"),
        (ask_payment(encode_header({"x402Version": 1})), "not base64 of JSON of x402 version 2"),
        (ask_payment(change_instructions(lambda made: made.update(accepts=[]))), "no terms"),
        (ask_payment(change_instructions(lambda made: made["accepts"][0].pop("payTo"))), "no terms"),
        (ask_payment(build_instructions("http://10.0.0.1/report")), "is listed as http://10.0.0.1/report"),
        (ask_payment(change_instructions(lambda made: made.pop("extensions"))), "has no bazaar extension"),
        (ask_payment(build_instructions(method="DELETE")), "for the method DELETE"),
        (
            ask_payment(change_instructions(lambda made: made["extensions"]["bazaar"].pop("schema"))),
            "without info.input.type or schema",
        ),
        (
            ask_payment(
                change_instructions(
                    lambda made: made["extensions"]["bazaar"]["info"]["input"].update(queryParams=3)
                )
            ),
            "whose schema does not allow its info: 3 is not of type 'object'",
        ),
        (ask_payment(None, ("Cache-Control", "max-age=60")), "a 402 that caches may keep"),
    ],
)
def test_a_402_that_no_crawler_reads_is_a_fault(shop: Shop, reply: Any, fault: str) -> None:
    shop["GET", "/report"] = reply

    [found] = check(shop).faults

    assert fault in found


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (Response(404), "openapi.json is no OpenAPI document"),
        (Response(200, (), b"[]"), "openapi.json is no OpenAPI document"),
        (NoAnswer("no answer: reset"), "no answer: reset"),
        (write_document(other={"get": {}}), "is not in /openapi.json"),
        (write_document(report={"get": {}}), "has no x-payment-info with the protocol x402"),
        (write_document(report={"get": {"x-payment-info": {"price": PRICE}}}), "with the protocol x402"),
        (
            write_document(report={"get": {"x-payment-info": {**INFO, "price": None}}}),
            "has no price in /openapi.json",
        ),
        (
            write_document(report={"get": {"x-payment-info": {**INFO, "price": {**PRICE, "amount": "1"}}}}),
            "costs 0.01 USDC",
        ),
    ],
)
def test_a_document_that_does_not_say_what_the_402_says_is_a_fault(
    shop: Shop, document: Any, fault: str
) -> None:
    shop["GET", "/openapi.json"] = document

    [found] = check(shop).faults

    assert fault in found


def test_a_range_of_prices_holds_the_one_that_is_asked(shop: Shop) -> None:
    info = {**INFO, "price": {"mode": "dynamic", "currency": "USD", "min": "0", "max": "0.05"}}
    shop["GET", "/openapi.json"] = write_document(report={"get": {"x-payment-info": info}})

    assert check(shop).faults == []


def test_a_head_that_is_free_is_a_fault(shop: Shop) -> None:
    shop["HEAD", "/report"] = Response(200)
    assert "HEAD" in check(shop).faults[0]
    shop["HEAD", "/report"] = Response(405)  # as of FastAPI: nothing is given away
    assert check(shop).faults == []


def test_what_is_worth_knowing_is_a_note(shop: Shop) -> None:
    shop["GET", "/report"] = ask_payment(build_instructions(environment="test"))
    shop["GET", "/llms.txt"] = Response(200, (), b"Nothing")
    notes = check(shop).notes
    assert "test network" in notes[0]
    assert notes[1] == f"{SHOP}/llms.txt does not name /report."

    shop["GET", "/report"] = ask_payment(change_instructions(lambda made: made.update(more="x" * 3000)))
    shop["GET", "/llms.txt"] = NoAnswer("no answer: late")
    notes = check(shop).notes
    assert "nginx reads 4096 bytes" in notes[0]
    assert notes[1] == "no answer: late"


def test_a_path_with_parameters_is_filled(shop: Shop) -> None:
    number = {"name": "number", "in": "path", "schema": {"type": "integer"}}
    operation = {"x-payment-info": INFO, "parameters": [number]}
    shop["GET", "/openapi.json"] = write_document(**{"items/{number}": {"get": operation}})
    shop["GET", "/items/1"] = shop["HEAD", "/items/1"] = ask_payment(build_instructions(f"{SHOP}/items/1"))

    assert check(shop, SHOP).sold == [f"GET {SHOP}/items/1"]
    assert check(shop, f"{SHOP}/items/1").faults == []


def test_without_a_document_the_method_is_tried(shop: Shop) -> None:
    del shop["GET", "/openapi.json"], shop["GET", "/report"]
    shop["POST", "/report"] = ask_payment(build_instructions(method="POST"))
    report = check(shop)

    assert report.sold == [f"POST {URL}"]
    assert len(report.faults) == 1
    assert "Nothing for sale" in check(shop, SHOP).faults[-1]


def test_many_requests_are_tried_in_part(shop: Shop) -> None:
    paths = {f"report{number}": {"get": {"x-payment-info": INFO}} for number in range(30)}
    shop["GET", "/openapi.json"] = write_document(**paths)

    report = check(shop, SHOP)

    assert len(report.faults) == 20
    assert report.notes[0] == "Of 30 requests, the first 20 were tried."


@pytest.mark.parametrize(
    ("url", "faults"),
    [
        ("http://shop.example", 1),
        ("https://localhost", 1),
        ("https://[::1]:8000", 1),
        ("https://10.0.0.1", 1),
        ("http://127.0.0.1:8000", 2),
        ("https://shop.example", 0),
    ],
)
def test_catalogues_list_names_and_https_only(url: str, faults: int) -> None:
    report = check_url(url, lambda _method, _url: Response(404))

    others = ("OpenAPI", "Nothing for sale")
    assert sum(all(other not in fault for other in others) for fault in report.faults) == faults


@pytest.mark.parametrize(
    "url", ["shop.example", "ftp://shop.example", "https://", "https://a:b@shop.example"]
)
def test_what_is_no_url_of_a_seller_is_a_wrong_call(url: str) -> None:
    with pytest.raises(CommandError, match="is no http"):
        check_url(url, lambda _method, _url: Response(404))


# The command


@pytest.fixture
def free_seller() -> Generator[str]:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}" if environ["REQUEST_METHOD"] != "HEAD" else b""]

    with serving_wsgi(application) as url:
        yield url


def test_the_command_says_what_is_wrong(free_seller: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{free_seller}/report", "--text"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{free_seller} is not https: catalogues list no other address."
    assert any("is answered with 200" in line for line in lines)

    assert main(["check", free_seller, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told.keys() == {"sells", "faults", "notes"}


def test_the_command_says_that_all_is_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("faregate.cli.routes.check_url", lambda _url: CrawlerReport([f"GET {URL}"]))

    assert main(["check", URL, "--text"]) == 0
    assert capsys.readouterr().out == "All is well: 1 request can be listed.\n"


def test_a_seller_who_is_not_there_is_a_fault() -> None:
    report = check_url("http://127.0.0.1:9/report")

    assert sum("no answer" in fault for fault in report.faults) == 2


def test_only_check_takes_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["routes", SHOP]) == 2
    assert "Only faregate check takes a URL" in capsys.readouterr().err


def test_without_the_validator_the_schemas_are_a_note(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def import_nothing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(crawler_check, "import_module", import_nothing)

    assert check(shop).notes == [
        "The schemas of bazaar extensions were not validated: pip install jsonschema."
    ]
