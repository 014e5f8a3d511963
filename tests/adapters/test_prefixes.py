"""Whole prefixes for sale, for any ASGI app: in doubt a path is on paid ground."""

import asyncio
import contextlib
import json
import sys
import time
from itertools import product
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.responses import PlainTextResponse

from faregate import Usage
from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.path_rules import PathRules
from faregate.errors import ConfigurationError
from faregate.fastapi import paid
from faregate.offers import offer
from tests.adapters.asgi import (
    CONTENT,
    Plain,
    a_paywall,
    ask,
    collect,
    connecting,
    header,
    http_scope,
    proof_for,
)
from tests.support.headers import decode_header


def seller(app: Any = None, **settings: Any) -> Any:
    return PaywallMiddleware(app or Plain(), a_paywall(), **settings)


DECLARED = pytest.mark.parametrize(
    "setting", [{"offers": {"/reports": "daily_report"}}, {"refuse": ["/reports"]}]
)
ON_PAID_GROUND = [
    "/reports",
    "/reports/",
    "/reports/2026/11",
    "/reports.json",
    "/Reports.json/",
    "/reports.",
    "//reports.v2/x",
    "//reports",
    "/reports\n",
    "/REPORTS/x",
    "/./reports",
    "/reports;v=1/x",
    "/\\reports\\x",
    "/reports%2Fx",
    "/%2freports",
    "/ reports ",
    "/re\tports",
    "/re\rpor\nts/x",
    "/reports?x",
    "/reports#/x",
    "/%72eports",
    "/%72ep\torts%3Fx",
]


@pytest.mark.parametrize("path", ON_PAID_GROUND)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PROPFIND", "get"])
def test_everything_below_an_offer_is_sold(path: str, method: str) -> None:
    plain = Plain()
    sent = ask(seller(plain, offers={"/reports": "daily_report"}), path, method=method)
    assert (sent[0]["status"], plain.runs) == (402, 0)


@pytest.mark.parametrize(
    "path",
    [
        "/x/../reports/y",
        "/reports/../open",
        "/reports/q3/..;x/../secret",
        "/reports/..;/../q3/secret",
        "/reports/q3/ ../ ../../../secret",
        "/reports/q3/x\\..\\..\\../../secret",
        "/reports/..",
        "/x/..;v=1/reports",
        "/x/ ../reports",
        "/x/.. y/reports",
        "/x%2F../reports",
        "/x/%2E%2e/reports",
        "/x/.\t./reports",
        "/reports\0/x",
        "/\ufffdreports",
        "/re\udcffports",
        "\\reports\\x",
        " /reports ",
        "reports/x",
        "http://seller.example/reports/x",
        "http://seller.example",
        "x:/reports",
        "x:reports",
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@DECLARED
def test_a_path_that_can_be_read_two_ways_is_refused(setting: dict[str, Any], method: str, path: str) -> None:
    plain = Plain()
    sent = ask(seller(plain, **setting), path, method=method)
    assert (sent[0]["status"], plain.runs) == (400, 0)
    assert json.loads(sent[1]["body"])["code"] == "ambiguous_path"


@pytest.mark.parametrize("name", [b"x-vhm-root", b"X-Vhm-Root", b"x_vhm_root"])
@DECLARED
def test_a_header_that_says_where_the_path_begins_is_refused(setting: dict[str, Any], name: bytes) -> None:
    """Pyramid traverses `/reports/today` for a request of `/today` with this header."""
    plain, headers = Plain(), [(b"host", b"x"), (name, b"/reports")]
    sent = ask(seller(plain, **setting), "/today", headers=headers)
    assert (sent[0]["status"], plain.runs) == (400, 0)
    assert ask(seller(plain), "/today", headers=headers)[0]["status"] == 200


@pytest.mark.parametrize("module", ["cherrypy", "pecan", "tg", "ZPublisher"])
@DECLARED
def test_a_prefix_in_front_of_objects_that_are_published_is_an_error(
    setting: dict[str, Any], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CherryPy answers `/about/__self__/reports` and, for `/daily_report`, `/daily-report`."""
    monkeypatch.setitem(sys.modules, module, sys)
    with pytest.raises(ConfigurationError, match="Use the prefix '/'"):
        seller(Plain(), **setting)
    assert ask(seller(Plain(), offers={"/": "daily_report"}), "/reports")[0]["status"] == 402
    assert ask(seller(Plain()), "/reports")[0]["status"] == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/@@reports", "/%40@reports/today", "//@@Reports;x", "/api/@@reports"),
        *("/+reports", "/++reports.json", "/%2breports", "/!reports", "/:reports"),
    ],
)
@DECLARED
def test_the_mark_of_a_view_makes_no_difference(setting: dict[str, Any], path: str) -> None:
    """Pyramid's traversal answers `/@@reports` with the view `reports`, and Morepath `/+reports`."""
    plain, root = Plain(), "/api" if path.startswith("/api") else ""
    sent = ask(seller(plain, **setting), path, root_path=root)
    assert (sent[0]["status"] in (402, 403), plain.runs) == (True, 0)


@pytest.mark.parametrize("path", ["/~72eports", "/%7e72eports", "/~72~65~70~6f~72ts.json", "/~2Freports"])
@DECLARED
def test_a_path_in_tildes_is_read_as_its_letters(setting: dict[str, Any], path: str) -> None:
    """Datasette encodes names in this way."""
    plain = Plain()
    sent = ask(seller(plain, **setting), path)
    assert (sent[0]["status"] in (402, 403), plain.runs) == (True, 0)
    assert ask(seller(plain, **setting), "/~ab/~zz/~")[0]["status"] == 200


def test_punctuation_that_begins_names_of_other_things_does() -> None:
    rules = PathRules({"/reports": "daily_report"})
    for path in ("/_reports", "/-reports", "/.reports", "/~reports", "/+/reports", "/@/reports"):
        assert rules.match(path).prefix is None


def test_a_space_is_read_as_a_name_in_tildes_spells_it() -> None:
    assert PathRules({"/my data": "daily_report"}).match("/m~79+data").prefix == "/my data"


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/api", "/x/api/reports"),
        ("/api/", "/x/api/reports"),
        ("a/", "/aaxa/reports"),
        ("/api", "/x//api//reports"),
    ],
)
@DECLARED
def test_a_root_path_is_taken_off_wherever_it_is(setting: dict[str, Any], root: str, path: str) -> None:
    """Litestar splits the path at it. Daphne lets each client set it."""
    plain = Plain()
    sent = ask(seller(plain, **setting), path, root_path=root)
    assert (sent[0]["status"] in (402, 403), plain.runs) == (True, 0)


def test_a_root_path_is_taken_off_once() -> None:
    rules = PathRules({"/reports": "daily_report"})
    assert rules.match("/api/x/api/reports", "/api").prefix is None
    assert rules.match("/x/api/api/reports", "/api").prefix is None


@pytest.mark.parametrize(
    "name", [b"x-script-name", b"X-Script-Name", b"x_script_name", b"X-Forwarded-Prefix", b"script_name"]
)
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"/zz", "/zz/reports"),
        (b"/zz/", "/zz/reports.json"),
        (b"/zz", "//ZZ//reports"),
        (b"/zz", "/zzreports"),
    ],
)
@DECLARED
def test_a_header_that_is_taken_off_the_path_makes_no_difference(
    setting: dict[str, Any], value: bytes, path: str, name: bytes
) -> None:
    """Radicale takes X-Script-Name off if the request has X-Forwarded-For, too."""
    plain, headers = Plain(), [(b"host", b"x"), (name, value)]
    sent = ask(seller(plain, **setting), path, headers=headers)
    assert (sent[0]["status"] in (402, 403), plain.runs) == (True, 0)
    assert ask(seller(plain, **setting), "/zz/free", headers=headers)[0]["status"] == 200
    assert ask(seller(plain), path, headers=headers)[0]["status"] == 200


class ScriptName:
    """What many copy: it takes a header off the path, and makes it the root path."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        root = dict(scope["headers"]).get(b"x-script-name", b"").decode()
        if root:
            scope = {**scope, "root_path": root, "path": scope["path"].removeprefix(root)}
        await self.app(scope, receive, send)


@pytest.mark.parametrize(
    ("own_root", "root", "path"),
    [
        ("", b"/zz", "/zz/reports"),
        ("", b"/zz", "/zz/zz/reports"),
        ("/api", b"/zz", "/zz/api/reports"),
        ("/zz", b"/zz", "/zz/zz/reports"),
    ],
)
@DECLARED
def test_a_header_that_middleware_and_the_router_take_off_makes_no_difference(
    setting: dict[str, Any], own_root: str, root: bytes, path: str
) -> None:
    app, runs = FastAPI(), list[str]()
    app.root_path = own_root
    app.get("/reports")(lambda: runs.append("reports"))
    app.get("/free")(lambda: runs.append("free"))
    behind_proxy, headers = ScriptName(app), [(b"host", b"x"), (b"x-script-name", root)]
    sold = seller(behind_proxy, **setting)
    assert ask(sold, path, headers=headers)[0]["status"] in (402, 403)
    assert ask(sold, path.replace("reports", "free"), headers=headers)[0]["status"] == 200
    assert ask(behind_proxy, path, headers=headers)[0]["status"] == 200
    assert runs == ["free", "reports"]


@pytest.mark.parametrize("values", [[b"/z%7a"], [b"/a, /b"], [b"/zz", b"/yy"], [b"/z\xc3\xa4"]])
def test_a_header_that_may_be_taken_off_the_path_is_plain(values: list[bytes]) -> None:
    plain, headers = Plain(), [(b"x-script-name", value) for value in values]
    sent = ask(seller(plain, offers={"/reports": "daily_report"}), "/free", headers=headers)
    assert (sent[0]["status"], plain.runs) == (400, 0)


@pytest.mark.parametrize("path", ["/", "", "/files", "/FILES/", "/files/reports", "/files/reports/today"])
@pytest.mark.parametrize(
    "setting", [{"offers": {"/files/reports": "daily_report"}}, {"refuse": ["/files/reports"]}]
)
def test_what_is_sold_is_not_copied_with_what_is_above_it(setting: dict[str, Any], path: str) -> None:
    """WebDAV copies and moves folders with all that is in them, to where it may be free."""
    plain, headers = Plain(), [(b"host", b"x"), (b"destination", b"http://x/pub")]
    for method in ("COPY", "MOVE"):
        sent = ask(seller(plain, **setting), path, method=method, headers=headers)
        assert (sent[0]["status"], plain.runs) == (400, 0)
        assert (
            ask(seller(Plain(), **setting), "/files/free", method=method, headers=headers)[0]["status"] == 200
        )
        assert ask(seller(Plain()), path, method=method, headers=headers)[0]["status"] == 200


CHEAP = {"/preview-of-reports": "text_summary", "/reports": "daily_report"}


@pytest.mark.parametrize(
    ("path", "root", "headers"),
    [
        ("/preview-of-reports/reports/today", "", [("x-script-name", "/preview-of-reports")]),
        ("/preview-of-reports/api/reports", "/api", ()),
    ],
)
def test_a_path_of_two_prices_is_refused(path: str, root: str, headers: Any) -> None:
    """The client would choose the cheaper one, and get what the router finds."""
    rules = PathRules(CHEAP)
    assert rules.match(path, root, headers).ambiguous
    assert PathRules(dict.fromkeys(CHEAP, "daily_report")).match(path, root, headers).protected


def test_below_daphne_a_client_chooses_no_price_by_the_root_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client can set it with Daphne-Root-Path, and Starlette then reads `/reports`."""
    path, root = "/preview-of-reports/reports", "/preview-of-reports"
    monkeypatch.setitem(sys.modules, "daphne", sys)
    for prefixes, expected in ((CHEAP, 400), (dict.fromkeys(CHEAP, "daily_report"), 402)):
        plain = Plain()
        sent = ask(seller(plain, offers=prefixes), path, root_path=root)
        assert (sent[0]["status"], plain.runs) == (expected, 0)
    assert ask(seller(offers=CHEAP), "/reports", root_path="/reports/preview")[0]["status"] == 402
    assert ask(seller(offers=CHEAP), "/x/reports", root_path="/x")[0]["status"] == 402


@pytest.mark.parametrize("name", ["x-script-name", "x-forwarded-prefix", "script-name"])
@pytest.mark.parametrize("path", ["/reports/full", "/internal/x", "/REPORTS//full"])
def test_a_client_chooses_no_price_by_a_header_of_the_root_path(name: str, path: str) -> None:
    """ProxyFix and Gunicorn make such a header the root path. The application finds the path below it."""
    cheap = {"/reports": "daily_report", "/reports/sample": "text_summary"}
    root, headers = "/reports/sample", [(name, "/reports/sample")]
    assert PathRules(cheap, ["/internal"]).match(path, root, headers).ambiguous
    assert not PathRules(dict.fromkeys(cheap, "daily_report")).match("/reports/full", root, headers).ambiguous
    behind_a_proxy = PathRules({"/": "text_summary", "/reports": "daily_report"}, ["/internal"])
    assert behind_a_proxy.match("/reports/full", "/api", [(name, "/api")]).prefix == "/reports"
    assert behind_a_proxy.match("/other", "/api", [(name, "/api")]).prefix == "/"


def test_the_longer_of_a_paid_and_a_refused_prefix_holds() -> None:
    rules = PathRules(
        {"/files": "text_summary", "/files/drafts/sold": "daily_report"}, ["/files/drafts", "/internal-notes"]
    )
    for path in ("/files/drafts", "/files/drafts/x", "/files//DRAFTS/x", "/files/drafts.json"):
        match = rules.match(path)
        assert (match.offer, match.protected) == (None, True)
    assert rules.match("/files/drafts/sold/x").prefix == "/files/drafts/sold"
    assert rules.match("/files/x").prefix == "/files"
    assert rules.match("/drafts/x", "/files").refused
    plain = Plain()
    sent = ask(seller(plain, offers={"/files": "daily_report"}, refuse=["/files/drafts"]), "/files/drafts/x")
    assert (sent[0]["status"], plain.runs) == (403, 0)


def test_a_path_is_not_both_sold_and_refused() -> None:
    with pytest.raises(ConfigurationError, match="'/files' is both sold and refused"):
        PathRules({"/Files/": "daily_report"}, ["/files"])


def test_a_root_path_of_many_slashes_is_refused_at_once() -> None:
    """Each client can choose it where a header is the root path."""
    rules, started = PathRules({"/reports": "daily_report"}), time.perf_counter()
    assert rules.match("/none", "/a" * 2000).ambiguous
    assert time.perf_counter() - started < 0.1
    assert not rules.match("/none", "/a" * 20).protected


def test_the_root_path_of_an_operator_may_be_a_prefix() -> None:
    prefixes = {"/": "text_summary", "/reports": "daily_report"}
    assert PathRules(prefixes).match("/api/reports", "/api").prefix == "/reports"
    assert PathRules(prefixes).match("/api/other", "/api").prefix == "/"


@pytest.mark.parametrize(
    "tail", [";text", "?text", "#text", ". text", "\\text", "%3Btext", "%3Ftext", ".json text"]
)
@pytest.mark.parametrize("root", ["", "/api"])
def test_a_text_below_a_prefix_is_not_folded_to_a_cheaper_one(tail: str, root: str) -> None:
    """A handler of `/ask/{text}` gets `sample;text` as its text."""
    prefixes = {"/ask": "daily_report", "/ask/sample": "text_summary"}
    plain = Plain()
    sent = ask(seller(plain, offers=prefixes), f"{root}/ask/sample{tail}", root_path=root)
    assert (sent[0]["status"], plain.runs) == (400, 0)
    sent = ask(seller(plain, offers=prefixes), f"{root}//ask//sample{tail}", root_path=root)
    assert (sent[0]["status"], plain.runs) == (400, 0)
    same = dict.fromkeys(prefixes, "daily_report")
    assert ask(seller(plain, offers=same), f"{root}/ask/sample{tail}", root_path=root)[0]["status"] == 402
    refused = seller(plain, offers={"/ask/sample": "text_summary"}, refuse=["/ask"])
    assert ask(refused, f"{root}/ask/sample{tail}", root_path=root)[0]["status"] == 400


def test_a_path_is_below_the_prefix_that_it_spells() -> None:
    offers = {"/": "text_summary", "/Reports": "daily_report", "/Caf\xe9/": "daily_report"}
    rules = PathRules(offers)
    rules.own_roots = ("/own",)
    for root, path in (
        *(("", "/Reports"), ("", "/Reports/Q1"), ("", "/Reports.v2/Q1"), ("", "/Caf\xe9/1 2")),
        *(("", "/own/Reports/Q1"), ("/api", "/api/Reports/Q1"), ("/api", "/Reports/Q1")),
    ):
        match = rules.match(path, root)
        assert match.offer == rules.offers["/reports"]
    assert rules.match("/About/Q1").prefix == "/"
    assert rules.match("/REPORTS/Q1").ambiguous
    assert rules.match("/reports/q1").prefix == "/reports"


def test_a_prefix_has_no_price_by_use() -> None:
    """Nothing below it is sure to report the use: a sale would fail after its work."""
    price = Usage(at_most="0.50 USDC", rates={"tokens": "0.001 USDC"})
    among = ("daily_report", offer("chat", price=price))

    def choose(_request: Any) -> str:
        return "chat"

    for sold in (offer("chat", price=price), offer(choose, among=among)):
        with pytest.raises(ConfigurationError, match="follows the use"):
            PathRules({"/chat": sold})


@pytest.mark.parametrize("prefix", ["/reports/*", "/reports/{id}", "/re%20ports", "/reports?x=1", "/a/../b"])
def test_a_prefix_that_could_never_match_is_a_mistake(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="not a pattern"):
        seller(offers={prefix: "daily_report"})


@pytest.mark.parametrize(
    ("prefix", "path"),
    [("/api/reports", "/reports/x"), ("/reports", "/api/reports/x")],
    ids=["put back", "looked through"],
)
def test_a_root_path_is_put_back_and_looked_through(prefix: str, path: str) -> None:
    app = seller(offers={prefix: "daily_report"})
    assert ask(app, path, root_path="/api")[0]["status"] == 402


def below_api(path: str, *dependencies: Any) -> FastAPI:
    """An application of FastAPI that takes `/api` off the paths by itself, if it is there."""
    app = FastAPI()
    app.root_path = "/api"  # as `FastAPI(root_path="/api")`, which is deprecated
    app.add_api_route(path, lambda: CONTENT, dependencies=dependencies)
    return app


@pytest.mark.parametrize("depth", [1, 2])
def test_a_mounted_application_may_take_its_root_path_off(depth: int) -> None:
    app = below_api("/reports/x")
    for _ in range(depth):
        outer = FastAPI()
        outer.mount("", app)
        app = outer
    sold = seller(app, offers={"/reports": "daily_report"})
    for path in ("/reports/x", "/api/reports/x"):
        assert ask(sold, path)[0]["status"] == 402


@pytest.mark.parametrize("prefix", ["/reports", "/api/reports"])
@pytest.mark.parametrize("path", ["/reports/x", "/api/reports/x", "/api//reports/x", "/api/REPORTS/x"])
@pytest.mark.parametrize("is_sold", [True, False])
def test_a_root_path_of_the_application_passes_no_prefix_by(prefix: str, path: str, is_sold: bool) -> None:
    setting: dict[str, Any] = {"offers": {prefix: "daily_report"}} if is_sold else {"refuse": [prefix]}
    app = seller(below_api("/reports/x"), **setting)
    assert ask(app, path)[0]["status"] == (402 if is_sold else 403)


def test_a_handler_with_an_offer_is_found_below_the_root_path_of_its_application() -> None:
    app = seller(below_api("/reports/x", Depends(paid("daily_report"))), refuse=["/reports"])
    assert [ask(app, path)[0]["status"] for path in ("/reports/x", "/api/reports/x")] == [402, 402]


def test_a_cache_gives_no_copy_away_below_the_root_path_of_its_application() -> None:
    inner = below_api("/reports/x", Depends(paid("daily_report")))

    class Cache:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await PlainTextResponse("what it has kept, changed since")(scope, receive, send)

    with pytest.raises(ConfigurationError, match="something in front of it answered"):
        ask(seller(Cache(inner)), "/api/reports/x")


@DECLARED
@pytest.mark.parametrize("target", ["http://seller.example/reports/x", "x:/reports/x", "x:reports"])
def test_a_target_that_is_no_path_is_none_below_a_root_path(setting: dict[str, Any], target: str) -> None:
    """uvicorn puts the root path in front of whatever it was sent."""
    plain = Plain()
    sent = ask(seller(plain, **setting), f"/api{target}", root_path="/api")
    assert (sent[0]["status"], plain.runs) == (400, 0)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        *product(("", "/api"), ("", "*", "/", "/x:y", "/http://x/reports", "/apiary/x", "/api", "/api/x:y")),
        *product(
            ("",),
            (
                "/report",
                "/report.json",
                "/reportsandmore",
                "/reports-old.json",
                "/x/reports",
                "/a..b",
                "/...",
            ),
        ),
    ],
)
def test_everything_else_is_left_alone(path: str, root: str) -> None:
    sent = ask(seller(offers={"/reports": "daily_report"}), path, root_path=root)
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())


def test_an_empty_path_is_the_root() -> None:
    plain = Plain()
    assert ask(seller(plain, offers={"/": "daily_report"}), "")[0]["status"] == 402
    assert plain.runs == 0


def test_where_nothing_is_declared_a_handler_is_not_sold_for_a_target_that_is_no_path() -> None:
    """Its payment would be for an address that nobody has; what costs nothing is left alone."""

    async def sells(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith("sold"):
            await require_payment(scope, offer("daily_report"))
        await Plain()(scope, receive, send)

    for target in ("http://seller.example/", "x:/"):
        sent = ask(seller(sells), f"{target}sold")
        assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (400, "ambiguous_path")
        assert ask(seller(sells), f"{target}free")[0]["status"] == 200


def test_where_nothing_is_declared_no_path_is_looked_at() -> None:
    """The app reads its own paths as it likes."""
    assert ask(seller(), "/a/../b")[0]["status"] == 200


def test_a_prefix_sells_what_a_whole_offer_says() -> None:
    plain = Plain()
    sold = offer("daily_report", max_result_bytes=1)
    app = seller(plain, offers={"/reports": sold})
    proof = proof_for(app, "/reports")
    sent = ask(app, "/reports", proof)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (500, "result_too_large")


def test_an_answer_that_costs_nothing_is_not_kept_by_a_cache() -> None:
    sent = ask(seller(offers={"/reports": "daily_report"}), "/reports", method="OPTIONS")
    assert (sent[0]["status"], header(sent, b"cache-control")) == (204, "private, no-store")


def test_a_prefix_is_paid_like_a_handler() -> None:
    app = seller(offers={"/reports": "daily_report"})
    proof = proof_for(app, "/reports/a")
    sent = ask(app, "/reports/a", proof)
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())
    assert header(sent, b"payment-response")
    assert ask(app, "/reports/b", proof)[0]["status"] == 409


def test_the_longest_prefix_names_the_offer() -> None:
    app = seller(offers={"/": "daily_report", "/other": "text_summary", "/other/daily": "daily_report"})
    report, summary = price(seller(offers={"/": "daily_report"})), price(seller(offers={"/": "text_summary"}))
    assert report != summary
    prices = [price(app, path) for path in ("/x", "/other/x", "/other/daily/x", "/otherwise")]
    assert prices == [report, summary, report, report]


def test_a_prefix_with_a_mount_path_is_sold_below_a_root_path_of_the_server() -> None:
    """An application mounted at /sub gets both as its root path: /api of the server, and its own."""
    app = seller(offers={"/sub/reports": "daily_report"})
    assert ask(app, "/sub/reports/x", root_path="/sub")[0]["status"] == 402
    assert ask(app, "/api/sub/reports/x", root_path="/api/sub")[0]["status"] == 402
    assert ask(app, "/api/sub/open", root_path="/api/sub")[0]["status"] == 200
    assert ask(app, "/api/sub/reports/x", root_path="/other")[0]["status"] == 200


def test_the_longest_prefix_is_that_of_either_reading() -> None:
    app = seller(offers={"/b": "daily_report", "/api/b": "text_summary"})
    assert price(app, "/b/x", root_path="/api") == price(seller(offers={"/": "text_summary"}))


def price(app: Any, path: str = "/x", **scope: Any) -> Any:
    """In atomic units. Instructions differ anyway: they name the resource."""
    instructions = decode_header(header(ask(app, path, **scope), b"payment-required"))
    return instructions["accepts"][0]["amount"]


def test_what_has_no_offer_on_closed_ground_is_refused_not_free() -> None:
    app = seller(refuse=["/reports"])
    for path in ON_PAID_GROUND:
        sent = ask(app, path)
        assert sent[0]["status"] == 403
        assert json.loads(sent[1]["body"])["code"] == "not_for_sale"
    assert ask(app, "/open")[0]["status"] == 200


@pytest.mark.parametrize(
    ("setting", "status"), [({"offers": {"/reports": "daily_report"}}, 204), ({"refuse": ["/reports"]}, 403)]
)
def test_options_costs_nothing_and_gives_nothing(setting: dict[str, Any], status: int) -> None:
    plain = Plain()
    sent = ask(seller(plain, **setting), "/reports", method="OPTIONS")
    assert (sent[0]["status"], plain.runs) == (status, 0)
    assert CONTENT.encode() not in sent[1]["body"]


def test_mistakes_are_sentences() -> None:
    with pytest.raises(ConfigurationError, match="starts with a slash"):
        seller(offers={"reports": "daily_report"})
    with pytest.raises(ConfigurationError, match="spelt differently"):
        seller(offers={"/reports": "daily_report", "/Reports/": "text_summary"})
    with pytest.raises(ConfigurationError, match="not both"):
        PaywallMiddleware(Plain(), a_paywall(), api_key="svc_test_x")


def test_an_app_that_sends_nothing_whole_is_not_paid_for() -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    app = seller(half, offers={"/": "daily_report"})
    proof = proof_for(app)
    with pytest.raises(RuntimeError, match="complete response"):
        ask(app, "/", proof)
    assert ask(app, "/", proof)[0]["status"] == 402


def test_an_app_that_sends_a_file_past_us_is_not_paid_for() -> None:
    async def past(scope: Any, receive: Any, send: Any) -> None:
        assert "http.response.pathsend" not in scope["extensions"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/etc/hostname"})

    app = seller(past, offers={"/": "daily_report"})
    extensions: dict[str, Any] = {"http.response.pathsend": {}}
    proof = proof_for(app)
    with pytest.raises(ConfigurationError, match="pathsend"):
        ask(app, "/", proof, extensions=extensions)
    assert ask(app, "/", proof)[0]["status"] == 402


@DECLARED
def test_a_websocket_on_paid_ground_never_reaches_the_app(setting: dict[str, Any]) -> None:
    reached: list[str] = []

    async def sockets(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    for path in ("/reports/live", "/x/../reports/live", "/\ufffdreports/live", "/open"):
        scope = {**http_scope(path), "type": "websocket"}
        asyncio.run(seller(sockets, **setting)(scope, connecting, collect([])))
    assert reached == ["/open"]


def test_an_app_that_reaches_two_offers_is_not_charged_though_it_swallows_the_mistake() -> None:
    async def generous(scope: Any, receive: Any, send: Any) -> None:
        with contextlib.suppress(ConfigurationError):
            await require_payment(scope, offer("text_summary"))
        await Plain()(scope, receive, send)

    app = seller(generous, offers={"/": "daily_report"})
    proof = proof_for(app)
    sent = ask(app, "/", proof)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (500, "two_offers")


@pytest.mark.parametrize("path", ["/50%off", "/100%ab", "/what?", "/c#", "/a\tb", "/%72eport", "/x/re?ports"])
def test_an_odd_path_beside_a_prefix_is_open(path: str) -> None:
    plain = Plain()
    assert ask(seller(plain, offers={"/reports": "daily_report"}), path)[0]["status"] == 200
    assert plain.runs == 1


@DECLARED
def test_a_path_that_takes_long_to_read_is_refused(setting: dict[str, Any]) -> None:
    """To list all readings of 64 kB took more than a second of the processor."""
    plain = Plain()
    began = time.process_time()
    for path in ("/" + ";a/" * 20_000, "/" + "~41/" * 20_000, "/%2f" * 20_000):
        assert ask(seller(plain, **setting), path)[0]["status"] == 400
    assert (plain.runs, time.process_time() - began < 1) == (0, True)
    assert ask(seller(Plain(), **setting), "/" + "a" * 20_000)[0]["status"] == 200
