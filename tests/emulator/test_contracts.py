"""spec: Contract revision, Contracts document, GET /contracts, Versioning."""

import re

import pytest

from faregate.emulator import LIVE_KEY, TEST_KEY, Account, Fault, Key, Resource, Revision, Value
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import ContractsDocument

from .seller import ApiClient, Json, assert_error, is_id

PATTERN = r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?$"
KEYED = {"x-svc-resource-integration-key", "x-svc-revision-key"}


def revision(api: ApiClient, resource: str, query: str = "", key: str | None = None) -> Json:
    """The contract of a resource, found by its name."""
    document = api.get(f"/contracts{query}", key).json()
    found = [
        one for one in document["components"]["schemas"].values() if one["x-svc-resource-name"] == resource
    ]
    assert len(found) == 1
    return dict(found[0])


def test_the_document_is_openapi_without_routes(api: ApiClient) -> None:
    document = api.listed("/contracts")
    assert set(document) == {"openapi", "info", "paths", "components", "security"}
    assert document["openapi"] == "3.1.0"
    assert set(document["info"]) == {"title", "version"}
    assert re.fullmatch(r"\d+(?:\.\d+){0,2}", document["info"]["version"])
    assert document["paths"] == {}
    assert set(document["components"]) == {"securitySchemes", "schemas"}
    assert document["components"]["securitySchemes"] == {
        "merchantApiKey": {"type": "http", "scheme": "bearer"}
    }
    assert document["security"] == [{"merchantApiKey": ["contracts:read"]}]


def test_it_maps_active_revision_ids_to_revisions(api: ApiClient) -> None:
    schemas = api.listed("/contracts")["components"]["schemas"]
    assert len(schemas) == 7
    assert all(is_id("acr", name) and one["x-svc-revision-id"] == name for name, one in schemas.items())
    assert api.service.revision_id("text_summary") in schemas
    assert api.service.revision_id("old_report") not in schemas


def test_a_revision_has_every_key(api: ApiClient) -> None:
    assert revision(api, "Token meter") == {
        "title": "Token meter completion values",
        "type": "object",
        "additionalProperties": False,
        "properties": {"input_tokens": value("Input tokens", 0), "output_tokens": value("output_tokens", 1)},
        "required": ["input_tokens"],
        "x-svc-settlement-asset": "USDC",
        "x-svc-revision-id": api.service.revision_id("token_meter"),
        "x-svc-revision-number": 2,
        "x-svc-revision-name": "Revision 2",
        "x-svc-resource-id": api.service.resource_id("token_meter"),
        "x-svc-resource-name": "Token meter",
        "x-svc-resource-description": "Must report its input tokens.",
    }
    assert revision(api, "Euro report")["x-svc-settlement-asset"] == "EURC"


def value(label: str, position: int) -> Json:
    return {
        "type": "string",
        "format": "decimal",
        "pattern": PATTERN,
        "description": "",
        "x-svc-label": label,
        "x-svc-unit": "token",
        "x-svc-position": position,
        "x-svc-max-digits": 30,
        "x-svc-decimal-places": 12,
    }


def test_the_keys_are_there_only_when_asked_for(api: ApiClient) -> None:
    assert not KEYED & set(revision(api, "Text summary"))
    assert not KEYED & set(revision(api, "Text summary", "?include_integration_key=false"))
    asked = revision(api, "Text summary", "?include_integration_key=true")
    assert asked["x-svc-resource-integration-key"] == "text_summary"
    assert is_id("rvk", asked["x-svc-revision-key"])


def test_the_revision_key_is_the_same_in_both_environments(api: ApiClient) -> None:
    query = "?include_integration_key=true"
    test, live = revision(api, "Text summary", query), revision(api, "Text summary", query, LIVE_KEY)
    for name in KEYED:
        assert test[name] == live[name]
    assert test["x-svc-revision-id"] != live["x-svc-revision-id"]
    assert test["x-svc-resource-id"] != live["x-svc-resource-id"]


def test_a_resource_without_integration_key_has_null(api: ApiClient) -> None:
    sold = Resource(key="a", name="A", revisions=(Revision(amount=1),), show_key=False)
    api.use_account(Account(keys=(Key(key=TEST_KEY),), resources=(sold,)))
    asked = revision(api, "A", "?include_integration_key=true")
    assert {name: asked[name] for name in KEYED} == dict.fromkeys(KEYED)


@pytest.mark.parametrize("query", ["include_integration_key=1", "include_integration_key=", "page=1"])
def test_another_query_is_422(api: ApiClient, query: str) -> None:
    assert_error(api.get(f"/contracts?{query}"), 422, "invalid_request")


def test_a_new_revision_replaces_the_active_one(api: ApiClient) -> None:
    before = revision(api, "Text summary", "?include_integration_key=true")
    api.service.publish("text_summary", Revision(amount=1, values=(Value(name="pages", required=True),)))
    after = revision(api, "Text summary", "?include_integration_key=true")
    assert after["x-svc-revision-number"] == before["x-svc-revision-number"] + 1
    assert after["x-svc-revision-id"] != before["x-svc-revision-id"]
    assert after["x-svc-revision-key"] != before["x-svc-revision-key"]
    assert after["required"] == ["pages"]
    assert before["x-svc-revision-id"] not in api.listed("/contracts")["components"]["schemas"]


def test_a_document_with_two_active_revisions_under_one_key_can_be_served(api: ApiClient) -> None:
    """Two resources of the account, both sold, shown under one key: by a fault, as no account can say so."""
    document = api.listed("/contracts?include_integration_key=true")
    keys = ("text_summary", "daily_report")
    for revision_id in map(api.service.revision_id, keys):
        document["components"]["schemas"][revision_id]["x-svc-resource-integration-key"] = "text_summary"
    fields = {"components": document["components"]}
    api.emulator.faults.add(Fault(kind="changed-body", operation="contracts", fields=fields, times=None))

    with MerchantClient(TEST_KEY, str(api.http.base_url)) as client:
        schemas = client.list_contracts(include_integration_key=True).components.schemas

    found = [one.revision_id for one in schemas.values() if one.integration_key == "text_summary"]
    assert sorted(found) == sorted(map(api.service.revision_id, keys))
    assert all(api.access(key, api.proof(key)).status_code == 200 for key in keys)


def test_the_contract_models_of_the_client_read_it(api: ApiClient) -> None:
    response = api.get("/contracts?include_integration_key=true")
    document = ContractsDocument.model_validate_json(response.content)
    assert len(document.components.schemas) == 7
