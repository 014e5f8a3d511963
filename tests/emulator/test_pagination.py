"""spec: List envelope, Pagination rules, Limits: the same for all three lists."""

from datetime import timedelta
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from faregate.emulator import TEST_KEY, Account, Key, Resource, Revision, Wallet
from faregate.rules.builtin_account import builtin_account

from .seller import ApiClient, Json, assert_error
from .services import MerchantService

LISTS = ["/transactions", "/payers", "/resources"]
every_list = pytest.mark.parametrize("path", LISTS)


@pytest.fixture(scope="module")
def sold() -> dict[str, MerchantService]:
    """Of each store, a service that has sold. Tests share it: they only read."""
    return {}


@pytest.fixture
def full(api: ApiClient, store: str, sold: dict[str, MerchantService]) -> ApiClient:
    """Seven of each, all made in one moment of the clock."""
    if store in sold:
        api.use(sold[store])
    else:
        buy(api, 7)
        sold[store] = api.service
    return api


def buy(api: ApiClient, count: int) -> None:
    """Make so many transactions, each of another payer."""
    for _ in range(count):
        api.wallet = Wallet(clock=api.clock)
        api.buy()


def walk(api: ApiClient, path: str) -> list[Json]:
    """All pages, by following `next` unchanged."""
    pages = [api.listed(path)]
    while pages[-1]["next"] is not None:
        pages.append(api.listed(pages[-1]["next"]))
    return pages


def ids(pages: list[Json]) -> list[str]:
    return [item["id"] for page in pages for item in page["items"]]


@every_list
def test_the_envelope_has_four_fields(full: ApiClient, path: str) -> None:
    page = full.listed(path)
    assert set(page) == {"items", "count", "as_of", "next"}
    assert page["count"] == len(page["items"]) == 7
    assert page["next"] is None
    assert page["as_of"].endswith("Z")


@every_list
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 100])
def test_pages_cover_the_list_once(full: ApiClient, path: str, size: int) -> None:
    pages = walk(full, f"{path}?page_size={size}")
    assert len(pages) == -(-7 // size)
    assert {page["count"] for page in pages} == {7}
    assert len({page["as_of"] for page in pages}) == 1
    assert ids(pages) == ids([full.listed(path)])
    assert len(set(ids(pages))) == 7


@every_list
def test_oldest_is_newest_reversed_even_within_one_moment(full: ApiClient, path: str) -> None:
    newest, oldest = full.listed(f"{path}?order=newest"), full.listed(f"{path}?order=oldest")
    assert ids([newest]) == ids([full.listed(path)]) == ids([oldest])[::-1]
    assert newest["items"][0]["created_at"] >= newest["items"][-1]["created_at"]


@every_list
def test_next_is_a_path_with_everything_in_it(full: ApiClient, path: str) -> None:
    page = full.listed(f"{path}?order=oldest&page_size=2&page=2")
    following = urlsplit(page["next"])
    assert following.path == f"/merchant/v1{path}"
    assert parse_qs(following.query) == {
        "as_of": [page["as_of"]],
        "order": ["oldest"],
        "page": ["3"],
        "page_size": ["2"],
    }


@pytest.mark.parametrize("path", ["/transactions", "/payers"])
def test_a_snapshot_does_not_move(api: ApiClient, path: str) -> None:
    buy(api, 7)
    first = api.listed(f"{path}?page_size=3")
    buy(api, 3)
    pages = [first, *walk(api, first["next"])]
    assert [page["count"] for page in pages] == [7, 7, 7]
    assert len(set(ids(pages))) == 7
    assert api.listed(path)["count"] == 10
    assert api.listed(f"{path}?as_of={first['as_of']}")["count"] == 7


@pytest.mark.parametrize("path", ["/transactions", "/payers"])
def test_as_of_holds_what_was_created_by_then(api: ApiClient, path: str) -> None:
    moments = []
    for _ in range(3):
        api.wallet = Wallet(clock=api.clock)
        moments.append(api.transaction(api.buy())["created_at"])
        api.clock.advance(0.000_001)
    everything = ids([api.listed(path)])
    for count, moment in enumerate(moments, 1):
        listed = api.listed(f"{path}?as_of={moment}")
        assert (listed["count"], ids([listed])) == (count, everything[-count:])


@every_list
def test_as_of_before_everything_is_an_empty_list(full: ApiClient, path: str) -> None:
    page = full.listed(f"{path}?as_of=2024-01-01T00:00:00Z")
    assert page == {"items": [], "count": 0, "as_of": "2024-01-01T00:00:00.000Z", "next": None}


@every_list
def test_a_page_after_the_last_is_empty(full: ApiClient, path: str) -> None:
    page = full.listed(f"{path}?page=2")
    assert (page["items"], page["count"], page["next"]) == ([], 7, None)
    for number in (10**17, 10**18, 10**30, "9" * 5000):
        page = full.listed(f"{path}?page={number}&page_size=100")
        assert (page["items"], page["count"], page["next"]) == ([], 7, None)


@every_list
def test_page_size_is_50_by_default(api: ApiClient, path: str) -> None:
    sold = [Resource(key=f"story_{n}", name=f"Story {n}", revisions=(Revision(amount=1),)) for n in range(51)]
    builtin = builtin_account().resources[0]
    account = Account(keys=(Key(key=TEST_KEY),), resources=(builtin, *sold[1:]))
    api.use_account(account)
    buy(api, 0 if path == "/resources" else 51)
    page = api.listed(path)
    assert (len(page["items"]), page["count"]) == (50, 51)
    assert "page_size=50" in page["next"]
    assert len(api.listed(page["next"])["items"]) == 1
    assert page["items"] == api.listed(f"{path}?page_size=50&page=1")["items"]


MOMENT = "2025-12-31T01:00:00.000Z"
SPELLINGS = [
    *("2025-12-31T01:00:00Z", "2025-12-31t01:00:00z", "2025-12-31 01:00:00Z", "2025-12-31_01:00:00Z"),
    *("2025-12-31T01Z", "2025-12-31T01:00Z", "2025-12-31T0100Z", "2025-12-31T010000Z"),
    *("20251231T010000Z", "20251231T01Z", "20251231T01:00:00Z", "20251231t0100z"),
    *("2025-12-31T01:00:00.0Z", "2025-12-31T01:00:00,000Z", "2025-12-31T01:00:00.0000004Z"),
    *("2025-12-31T01:00:00+00", "2025-12-31T01:00:00+0000", "2025-12-31T01:00:00+00:00"),
    *("2025-12-31T01:00:00-00:00", "2025-12-31T03:00:00+02", "2025-12-31T03:30:00+0230"),
    *("2025-12-31T03:30:00+02:30", "2025-12-30T23:00:00-02:00", "2025-12-31T01:00:30+00:00:30"),
    *("2025-12-31T00:59:60Z", "20251231T03+02"),
]
"""One moment in the forms of ISO 8601 and RFC 3339."""


@every_list
@pytest.mark.parametrize("as_of", SPELLINGS)
def test_as_of_takes_the_common_forms_of_iso_8601(full: ApiClient, path: str, as_of: str) -> None:
    page = full.listed(f"{path}?as_of={quote(as_of)}")
    assert page["as_of"] == MOMENT


@pytest.mark.parametrize(
    ("as_of", "shown"),
    [
        ("2025-12-31T00:00:00.123456Z", "2025-12-31T00:00:00.123456Z"),
        ("2025-12-31T00:00:00,123456789Z", "2025-12-31T00:00:00.123456Z"),
        ("2025-12-31T00:00:00.5Z", "2025-12-31T00:00:00.500Z"),
        ("2025-12-31T23:59:60.5Z", "2026-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_as_of_keeps_its_fraction(api: ApiClient, as_of: str, shown: str) -> None:
    api.clock.advance(1)
    assert api.listed(f"/payers?as_of={as_of}")["as_of"] == shown


BAD_QUERIES = [
    *("page=0", "page=-1", "page=1.0", "page=", "page=one", "page=01", "page=%2B1", "page=1%0A"),
    *("page=0" + "9" * 5000, "page=\u0661", "page=1&page=2"),
    *("page_size=0", "page_size=101", "page_size=-1", "page_size=", "page_size=ten", "page_size=1e1"),
    *("order=", "order=up", "order=Newest", "order=newest&order=oldest"),
    *("as_of=", "as_of=now", "as_of=2025-12-31", "as_of=2025-12-31T00:00:00", "as_of=1767139200"),
    *("as_of=2025-12-31T00:00:00+02:00", "as_of=2025-13-31T00:00:00Z", "as_of=2025-12-31T25:00:00Z"),
    *("as_of=0001-01-01T00:00:00%2B23:59", "as_of=9999-12-31T23:59:59-23:59", "as_of=2025-W01-1T00:00Z"),
    *(
        "as_of=2025-365T00:00Z",
        "as_of=2025-12-31T",
        "as_of=2025-12-31Z",
        "as_of=T00:00Z",
        "as_of=2025-12T00Z",
    ),
    *(
        "as_of=2025-12-31T24:00:00Z",
        "as_of=2025-12-31T00:60:00Z",
        "as_of=2025-12-31T01:60Z",
        "as_of=2025-12-31T0160Z",
        "as_of=2025-12-31T00:00:61Z",
    ),
    *("as_of=2025-12-31T0Z", "as_of=2025-12-31T00.5Z", "as_of=2025-12-31T00:00:00.Z", "as_of=2025-W01-1T00Z"),
    *(
        "as_of=2025-12-30T00:00:00%2B00:60",
        "as_of=2025-12-30T00:00:00-0160",
        "as_of=2025-12-30T00:00%2B23:99",
    ),
    *("as_of=2025-12-30T00:00:00%2B00:00:60", "as_of=2025-12-30T00:00:00-000060.5"),
    *("as_of=2025-12-31T00:00:00%2B24:00", "as_of=2025-12-31T00:00:00%2B2", "as_of=2025-12-31T00:00:00ZZ"),
    *(
        "as_of=2025-12-31T00:00:00UTC",
        "as_of=2025-12-31T00:00:00%E2%88%9202:00",
        "as_of=9999-12-31T23:59:60Z",
    ),
    *("as_of=\u0662025-12-31T00:00:00Z", "as_of=%202025-12-31T00:00:00Z", "as_of=2025-12-31T00:00:00Z%0A"),
    *("as_of=2999-01-01T00:00:00Z", "as_of=2026-01-01T00:00:00.001Z", "as_of=2026-01-01T00:00:00-00:01"),
    *("unknown=1", "Page=1", "a", "&".join(f"p{n}=1" for n in range(60))),
]


@every_list
@pytest.mark.parametrize("query", BAD_QUERIES, ids=lambda query: query[:40])
def test_a_query_that_breaks_a_rule_is_422(api: ApiClient, path: str, query: str) -> None:
    assert_error(api.get(f"{path}?{query}"), 422, "invalid_request")


def test_as_of_is_in_the_future_by_the_clock_of_the_service(api: ApiClient) -> None:
    soon = (api.clock() + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert_error(api.get(f"/payers?as_of={soon}"), 422, "invalid_request")
    api.clock.advance(5)
    assert api.get(f"/payers?as_of={soon}").status_code == 200


def test_filters_of_one_list_are_unknown_to_another(api: ApiClient) -> None:
    for address in ("/payers?status=failed", "/resources?payer_id=a", "/transactions?archived=true"):
        assert_error(api.get(address), 422, "invalid_request")
