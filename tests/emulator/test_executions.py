"""spec: POST /resource-executions/{id}/complete. The id is told when the emulator is set to."""

from typing import Any

import pytest

from faregate.emulator import LIVE_KEY, Revision

from .seller import ApiClient, Json, assert_error, is_id

METADATA = {
    "duration_ms": 12,
    "response_content_type": "text/html; charset=utf-8",
    "response_size_bytes": 0,
    "response_status": 204,
}


@pytest.fixture
def options() -> dict[str, Any]:
    return {"allow_live": True, "expose_execution_id": True}


@pytest.fixture
def execution(api: ApiClient) -> str:
    """An open free execution."""
    body = api.access("free_notes").json()
    assert set(body) == {"transaction_id", "resource_execution_id"}
    assert body["transaction_id"] is None
    return str(body["resource_execution_id"])


def close(api: ApiClient, execution: str, **changes: object) -> Any:
    body = {"revision_id": api.service.revision_id("free_notes"), "resource_execution": METADATA, **changes}
    body = {name: value for name, value in body.items() if value is not ...}
    return api.post(f"/resource-executions/{execution}/complete", body)


def test_a_free_execution_is_closed(api: ApiClient, execution: str) -> None:
    assert is_id("rex", execution)
    response = close(api, execution)
    assert response.status_code == 200
    assert response.json() == {"resource_execution_id": execution}


def test_the_metadata_is_in_the_state(api: ApiClient, execution: str) -> None:
    close(api, execution)
    [kept] = api.emulator.export()["test"]["executions"]
    assert (kept["id"], kept["metadata"]) == (execution, METADATA)


def test_a_paid_access_has_no_execution(api: ApiClient) -> None:
    assert set(api.access(proof=api.proof()).json()) == {"transaction_id"}


ENDINGS: dict[str, Json] = {
    "raised": {"duration_ms": 0, "response_status": 500, "response_size_bytes": 0},
    "not found": {"response_status": 404, "response_content_type": "application/json"},
    "redirect": {"response_status": 307, "response_size_bytes": 0},
    "not modified": {"response_status": 304},
    "early hints": {"response_status": 103},
    "no content": {"response_status": 204, "response_size_bytes": 0, "response_content_type": None},
    "an odd status": {"response_status": 599},
    "a status that is none": {"response_status": None, "duration_ms": 3},
    "a long type": {"response_content_type": "multipart/mixed; boundary=" + "x" * 229},
    "a strange type": {"response_content_type": "caf\u00e9; \x01"},
    "an empty type": {"response_content_type": ""},
    "days of work": {"duration_ms": 10**12, "response_size_bytes": 2**53 - 1},
    "nothing known": {},
}
"""What a seller may report of a handler that gave something away, or failed to."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_free_execution_is_closed_whatever_the_handler_did(
    api: ApiClient, execution: str, ending: str
) -> None:
    for _ in range(2):
        response = close(api, execution, resource_execution=ENDINGS[ending])
        assert (response.status_code, response.json()) == (200, {"resource_execution_id": execution})


@pytest.mark.parametrize("ending", ["raised", "nothing known"])
@pytest.mark.parametrize("change", ["archived", "superseded", "priced", "later"])
def test_a_free_execution_is_closed_whatever_the_seller_changed(
    api: ApiClient, execution: str, ending: str, change: str
) -> None:
    revision_id = api.service.revision_id("free_notes")
    match change:
        case "archived":
            api.service.archive("free_notes")
        case "superseded":
            api.service.publish("free_notes", Revision(amount=7))
        case "priced":
            api.service.require_payment("free_notes")
        case _:
            api.clock.advance(10**6)
    response = close(api, execution, revision_id=revision_id, resource_execution=ENDINGS[ending])
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("ending", ["raised", "nothing known"])
def test_a_free_execution_is_closed_after_a_restart(api: ApiClient, execution: str, ending: str) -> None:
    api.emulator.load_state(api.emulator.export())
    assert close(api, execution, resource_execution=ENDINGS[ending]).status_code == 200


def test_the_same_metadata_again_is_200(api: ApiClient, execution: str) -> None:
    assert close(api, execution).content == close(api, execution).content


def test_other_metadata_is_409(api: ApiClient, execution: str) -> None:
    close(api, execution)
    response = close(api, execution, resource_execution=METADATA | {"duration_ms": 13})
    assert_error(response, 409, "resource_execution_conflict")
    assert close(api, execution).status_code == 200


def test_another_revision_is_409(api: ApiClient, execution: str) -> None:
    other = api.service.revision_id("text_summary")
    assert_error(close(api, execution, revision_id=other), 409, "revision_mismatch")
    assert close(api, execution).status_code == 200
    assert_error(close(api, execution, revision_id=other), 409, "revision_mismatch")


@pytest.mark.parametrize("identifier", ["rex_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "rex_1", "x", "a%2Fb"])
def test_an_unknown_execution_is_404(api: ApiClient, identifier: str) -> None:
    assert_error(close(api, identifier), 404, "resource_execution_not_found")


def test_an_execution_of_the_other_environment_is_404(api: ApiClient, execution: str) -> None:
    api.key = LIVE_KEY
    assert_error(close(api, execution), 404, "resource_execution_not_found")


@pytest.mark.parametrize(
    "change",
    [
        {"revision_id": ...},
        {"revision_id": "acr_1"},
        {"resource_execution": ...},
        {"resource_execution": None},
        {"resource_execution": "text"},
        {"resource_execution": {"body": "secret"}},
        {"resource_execution": {"duration_ms": -1}},
        {"resource_execution": {"duration_ms": 2**53}},
        {"resource_execution": {"duration_ms": "1"}},
        {"resource_execution": {"response_status": 600}},
        {"resource_execution": {"response_content_type": "a" * 256}},
        {"extra": 1},
    ],
    ids=repr,
)
def test_a_body_that_breaks_a_rule_is_422(api: ApiClient, execution: str, change: dict[str, Any]) -> None:
    assert_error(close(api, execution, **change), 422, "invalid_request")
    assert close(api, execution).status_code == 200


def test_a_body_that_is_not_json_is_400(api: ApiClient, execution: str) -> None:
    response = api.raw(f"/resource-executions/{execution}/complete", b"duration_ms=1")
    assert_error(response, 400, "invalid_request")
    assert close(api, execution).status_code == 200
