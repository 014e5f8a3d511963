"""The files of the console: small, complete, held by a strict policy, from nowhere else."""

import re
from collections.abc import Iterator
from importlib.resources import files

import httpx
import pytest

from faregate.emulator.faults.models import KINDS

PARTS = sorted(one.name for one in files("faregate.emulator.console").iterdir() if one.name.count(".") == 1)
SHIPPED = [name for name in PARTS if not name.endswith(".py")]


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def test_the_page_has_a_strict_policy(http: httpx.Client) -> None:
    answer = http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script>|<style|\son\w+=|style=", answer.text)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_part_has_its_type_and_is_sent_once(http: httpx.Client, name: str) -> None:
    address = f"/_emulator/console/{name}"
    answer = http.get(address)
    kinds = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = http.get(address, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["__init__.py", "nothing.js", "..%2F__init__.py", "%2e%2e"])
def test_there_are_no_other_parts(http: httpx.Client, name: str) -> None:
    assert http.get(f"/_emulator/console/{name}").status_code == 404


def test_the_form_offers_every_kind_of_fault(http: httpx.Client) -> None:
    script = http.get("/_emulator/console/faults.js").text
    table = script.partition("const KINDS = {")[2].partition("};")[0]
    assert tuple(re.findall(r'^\t"?([a-z0-9-]+)"?: ', table, re.MULTILINE)) == KINDS


def test_it_is_small(http: httpx.Client) -> None:
    answers = [http.get(f"/_emulator/console/{name}") for name in SHIPPED]
    assert sum(len(answer.content) for answer in answers) < 90 * 1024
    assert sum(answer.num_bytes_downloaded for answer in answers) < 36 * 1024
