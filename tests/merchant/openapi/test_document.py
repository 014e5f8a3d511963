"""The document itself: valid OpenAPI 3.1, shipped as it is built, with the names of the client."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from faregate.cli import main
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.openapi import describe


def operations() -> list[Any]:
    return [operation for item in describe()["paths"].values() for operation in item.values()]


def every(node: Any, key: str) -> Iterator[Any]:
    """Every value of this key, wherever it is."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and key in node:
        yield node[key]
    for one in inner:
        yield from every(one, key)


def test_it_is_an_openapi_3_1_document() -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(describe()).iter_errors()] == []
    assert describe()["openapi"] == "3.1.0"


def test_the_shipped_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """`faregate openapi > src/faregate/merchant/openapi.json` renews it."""
    assert main(["openapi"]) == 0
    shipped = files("faregate.merchant").joinpath("openapi.json").read_text()
    assert capsys.readouterr().out == shipped
    assert json.loads(shipped) == describe()


def test_who_changes_a_description_changes_only_their_own() -> None:
    def spoil(node: Any) -> None:
        for one in list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else ():
            spoil(one)
        if isinstance(node, (dict, list)):
            node.clear()

    before = json.dumps(describe())
    spoil(describe())
    assert json.dumps(describe()) == before


def test_operations_are_named_as_in_the_client() -> None:
    names = [operation["operationId"] for operation in operations()]
    assert len(set(names)) == 8
    for client in (MerchantClient, AsyncMerchantClient):
        assert [name for name in names if not callable(getattr(client, name, None))] == []


def test_every_body_is_json() -> None:
    contents = list(every(describe(), "content"))
    assert len(contents) > 10
    assert {tuple(content) for content in contents} == {("application/json",)}


def test_nothing_is_referred_to_in_vain_or_never() -> None:
    """Every reference leads somewhere; every schema is used, but the generic codes, which are for reading."""
    document = describe()
    references = {str(one) for one in every(document, "$ref")}
    there = {f"#/components/{kind}/{name}" for kind, all in document["components"].items() for name in all}
    assert references - there == set()
    unused = {one for one in there - references if "securitySchemes" not in one}
    assert unused == {"#/components/schemas/ApiErrorCode"}


def test_every_pattern_is_one_of_json_schema() -> None:
    r"""ECMA-262 has no `\z` and no `\Z`."""
    patterns = [one for one in every(describe(), "pattern") if isinstance(one, str)]
    assert len(patterns) > 30
    assert [one for one in patterns if re.search(r"\\[zZA]", one)] == []
