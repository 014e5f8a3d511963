"""`examples/fastapi/app.py` as its own process, with two settings and nothing else.

`test_example_starlette.py` starts it as its README does.
"""

import subprocess
import sys

import httpx
import pytest
from examples.demo.servers import SELLER, DidNotStart

from faregate.emulator import Emulator
from tests.e2e.example_servers import preloaded_server as server
from tests.e2e.payers import HttpxPayer

COMMAND = ["uvicorn", "--app-dir", str(SELLER), "--port", "0", "app:app"]


def test_two_settings_are_enough(environ: dict[str, str], emulator: Emulator) -> None:
    with server("the example", COMMAND, environ) as seller:
        unpaid = httpx.get(f"{seller}/report")
        paid = HttpxPayer().call("GET", f"{seller}/report")
        health = httpx.get(f"{seller}/health").json()

    assert (unpaid.status_code, paid.status_code) == (402, 200)
    assert health["worked"] == {"report": 1}
    assert ("POST", 200) in [
        (call.method, call.status) for call in emulator.calls() if "complete" in call.path
    ]


def test_the_embedded_emulator_needs_no_key() -> None:
    with server("the example", COMMAND, {"FAREGATE_BASE_URL": "emulator:"}) as seller:
        assert httpx.get(f"{seller}/report").status_code == 402
        assert HttpxPayer().call("GET", f"{seller}/report").status_code == 200


@pytest.mark.parametrize(
    ("settings", "missing"),
    [({}, "FAREGATE_BASE_URL"), ({"FAREGATE_BASE_URL": "http://127.0.0.1:9"}, "FAREGATE_API_KEY")],
)
def test_a_missing_setting_is_named_at_the_start(settings: dict[str, str], missing: str) -> None:
    """The server ends, with the sentence, though uvicorn would serve an app whose lifespan raises."""
    with pytest.raises(DidNotStart, match=f"Set {missing}"), server("the example", COMMAND, settings):
        pass


def test_without_settings_nothing_is_served_even_by_a_server_without_lifespan() -> None:
    with server("the example", [*COMMAND, "--lifespan", "off"], {}) as seller:
        assert [httpx.get(f"{seller}/{path}").status_code for path in ("report", "notes")] == [500, 500]


def test_the_application_directory_is_all_it_imports() -> None:
    """Nothing of this repository but the installed package is needed."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import app; print(sorted(app.WORKED))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(SELLER)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
