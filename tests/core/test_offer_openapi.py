"""The OpenAPI operation that a seller writes beside an offer."""

import math
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from faregate.errors import ConfigurationError
from faregate.offers import build_offer

CITY = {"name": "city", "in": "query", "schema": {"type": "string"}}


class City(BaseModel):
    name: str


class Route(BaseModel):
    start: City
    end: City


def test_it_is_kept_and_compared() -> None:
    offer = build_offer("daily_report", openapi={"parameters": [CITY]})

    assert offer.operation == {"parameters": [CITY]}
    assert offer == build_offer("daily_report", openapi={"parameters": [CITY]})
    assert offer != build_offer("daily_report")
    assert {offer: 1}[replace(offer, description=None)] == 1
    assert "parameters" not in repr(offer)
    assert build_offer("daily_report").operation == {}


def test_a_model_of_pydantic_needs_nothing_else() -> None:
    body = {"content": {"application/json": {"schema": Route.model_json_schema()}}}
    offer = build_offer("daily_report", openapi={"requestBody": body, "responses": {200: body}})

    schema = offer.operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["properties"]["end"]["properties"]["name"]["type"] == "string"


def test_the_offers_of_a_choice_have_it_too() -> None:
    choice = build_offer(lambda: "daily_report", ["daily_report", "text_summary"], openapi={"tags": ["x"]})

    assert [one.operation for one in choice.alternatives] == [{"tags": ["x"]}] * 2


@pytest.mark.parametrize(
    ("openapi", "message"),
    [
        ([], "no JSON: it is no object"),
        ("{", "no JSON"),
        ({"summary": {1, 2}}, "no JSON"),
        ({"x-limit": math.nan}, "no JSON"),
        ({"request_body": {}}, "'request_body' in its openapi=.* Did you mean requestBody?"),
        ({"paths": {}}, "'paths' in its openapi="),
        ({"parameters": {}}, "parameters are a list"),
        ({"parameters": ["city"]}, "parameters are a list"),
        ({"requestBody": []}, "requestBody is an object"),
        ({"responses": {"200": "ok"}}, "responses are objects"),
        ({"responses": []}, "responses are objects"),
    ],
)
def test_what_is_no_operation_is_an_error(openapi: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_offer("daily_report", openapi=openapi)
