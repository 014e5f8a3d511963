"""`--state FILE`: what happened is there again after a restart, however the server ended."""

import json
import logging
import signal
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from threading import Thread

import httpx
import pytest

from faregate.cli import main
from faregate.emulator import TEST_KEY, Emulator, EmulatorClock, ManualClock, Tenants, Wallet
from faregate.emulator.persistence.dump import EmulatorCopy, dump_document
from faregate.emulator.server import serve
from faregate.emulator.state_file import StateFile
from faregate.errors import ConfigurationError
from tests.emulator.process import running
from tests.support.waiting import eventually

from .controls import Controls
from .load import Seller as Hands
from .load import access_body
from .seller import bearer


def frozen() -> Tenants:
    return Tenants(Emulator(clock=ManualClock(), seed=5))


def begun(path: Path, tenants: Tenants | None = None) -> tuple[Tenants, StateFile]:
    tenants = tenants or frozen()
    state = StateFile(path)
    state.begin(tenants)
    return tenants, state


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    tenants, state = begun(tmp_path / "state.json")
    sold = {"key": "story", "name": "A story", "revisions": [{"amount": "5"}]}
    with serve(tenants, state=state) as url, httpx.Client(base_url=url, trust_env=False) as http:
        http.post("/_emulator/tenants", json={"name": "b", "seed": "x", "account": {"resources": [sold]}})
        bought = [Controls(http, tenants, name).api().buy() for name in ("a",)]
        bought.append(Controls(http, tenants, "b").api().buy("story"))
        http.post("/_emulator/tenants/a/clock", json={"advance": 30})
        before = {name: tenants.get_or_create(name).export() for name in tenants.names}
    after, state = begun(tmp_path / "state.json")
    assert {name: after.get_or_create(name).export() for name in after.names} == before
    assert after.get_config("b") == tenants.get_config("b")
    with serve(after, state=state) as url, httpx.Client(base_url=url, trust_env=False) as http:
        done = [
            Controls(http, after, name).api().complete(one) for name, one in zip("ab", bought, strict=True)
        ]
    assert [one.json()["status"] for one in done] == ["succeeded", "succeeded"]


def test_it_is_written_within_a_second_of_a_change(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    tenants, state = begun(path)

    def said(words: str) -> Callable[[], bool]:
        return lambda: words in path.read_text()

    with serve(tenants, state=state) as url, httpx.Client(base_url=url, trust_env=False) as http:
        bought = Controls(http, tenants, "main")
        assert eventually(said(bought_id(http, tenants)))
        http.put(f"/_emulator/tenants/main/balances/0x{'7' * 40}", json={"USDC": "12321"})
        assert eventually(said("12321"))
        written = path.stat().st_mtime_ns
        http.get("/_emulator/tenants/main/transactions")
        assert bought.get("/clock")["mode"] == "frozen"
        http.post("/_emulator/tenants", json={"name": "last"})
        assert eventually(said('"last"'))
        assert path.stat().st_mtime_ns > written
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def bought_id(http: httpx.Client, tenants: Tenants) -> str:
    controls = Controls(http, tenants, "main")
    api = controls.api()
    api.key = TEST_KEY
    return api.buy().id


def test_a_killed_server_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    options = ("--json", "--state", str(path), "--seed", "9", "--freeze", "2026-03-01T00:00:00Z")
    with running(*options) as (line, process):
        url = json.loads(line)["url"]
        first = sold(
            url, Wallet.test("slow", clock=ManualClock(datetime.fromisoformat("2026-03-01T00:00:00+00:00")))
        )
        assert eventually(lambda: first in path.read_text())
        process.kill()
        process.wait(10)
    with running(*options) as (line, _):
        url = json.loads(line)["url"]
        with httpx.Client(base_url=url, headers=bearer(TEST_KEY), trust_env=False) as http:
            assert http.get(f"/merchant/v1/transactions/{first}").json()["status"] == "authorized"
            http.post("/_emulator/tenants/main/clock", json={"advance": 60})
            second = sold(
                url,
                Wallet.test("good", clock=ManualClock(datetime.fromisoformat("2026-03-01T00:01:00+00:00"))),
            )
            assert http.get("/merchant/v1/transactions").json()["count"] == 2
    assert first != second


def sold(url: str, wallet: Wallet) -> str:
    with httpx.Client(base_url=url, headers=bearer(TEST_KEY), trust_env=False) as http:
        body = {
            "revision_id": Emulator().revision_id("daily_report"),
            "resource": {"url": "https://seller.example/a", "mime_type": "text/plain"},
            "settlement_asset": "USDC",
        }
        asked = http.post("/merchant/v1/access", json=body).headers["payment-required"]
        proof = {"PAYMENT-SIGNATURE": wallet.pay(asked)}
        return str(http.post("/merchant/v1/access", json=body, headers=proof).json()["transaction_id"])


def test_a_running_clock_goes_on_while_the_server_is_away(tmp_path: Path) -> None:
    real = ManualClock()
    main = Emulator(clock=EmulatorClock(real))
    main.clock.advance(1000)
    begun(tmp_path / "state.json", Tenants(main))
    real.advance(60)
    after, _ = begun(tmp_path / "state.json", Tenants(Emulator(clock=EmulatorClock(real))))
    assert (after.main.clock() - real()).total_seconds() == 1000
    assert after.main.clock.mode == "real"


GOOD = '{"version":1,"tenants":[{"name":"main","state":{"version":1}}]}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file: Invalid JSON"),
        (GOOD[:-9], "the file: Invalid JSON"),
        ("[]", "the file: "),
        (GOOD.replace("1", "2", 1), "version: "),
        (GOOD.replace('"version":1}', '"version":3}'), r"tenants[0].state.version: "),
        (GOOD.replace("main", "a b"), "the name of a tenant"),
        (GOOD.replace('"main"', '"main","seed":"1"'), "another account or seed"),
        (
            GOOD.replace(
                '"version":1}',
                '"version":1,"test":{"resources":[{"key":"x","revisions":'
                '[{"amount":"1"}],"updated_at":"2026-01-01T00:00:00Z"}]}}',
            ),
            "test.resources[0].key: this tenant has no resource 'x'",
        ),
    ],
)
def test_a_corrupt_file_is_an_error_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert main(["emulator", "--state", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"faregate: {path}: ")
    assert words in told.err
    assert "Move the file away" in told.err
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_good_file_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(GOOD)
    tenants, _ = begun(tmp_path / "state.json")
    assert tenants.names == ["main"]


@pytest.mark.parametrize(("name", "words"), [("none/state.json", "cannot write"), (".", "cannot read")])
def test_a_place_that_cannot_be_is_an_error_before_anything_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert main(["emulator", "--state", str(tmp_path / name)]) == 1
    assert words in capsys.readouterr().err


def test_a_full_disk_is_logged_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json"
    tenants, state = begun(path)
    before = path.read_text()
    replace = "faregate.emulator.state_file.os.replace"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with serve(tenants, state=state) as url, httpx.Client(base_url=url, trust_env=False) as http:
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "faregate.emulator"):
            patched.setattr(replace, full)
            bought = bought_id(http, tenants)
            assert eventually(lambda: "No space left" in caplog.text)
            assert path.read_text() == before
            assert list(tmp_path.glob("*.json")) == [path]
            assert not list(tmp_path.glob(".*-new"))
        assert eventually(lambda: bought in path.read_text())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text(GOOD)
    link.symlink_to(target)
    begun(link)
    assert link.is_symlink()
    assert json.loads(target.read_text())["tenants"][0]["state"]["seller"]


def test_two_faults_of_begin_are_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="version: Field required"):
        begun(tmp_path / "state.json")


def test_a_second_server_is_refused_until_the_first_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.json"
    with running("--json", "--state", str(path)) as (line, process):
        taken = json.loads(line)["url"].rpartition(":")[2]  # so that nobody serves who should not
        (tmp_path / "link.json").symlink_to(path)
        before = path.read_text()
        for name in ("state.json", "link.json"):
            assert main(["emulator", "--state", str(tmp_path / name), "--port", taken]) == 1
            told = capsys.readouterr()
            assert (told.out, path.read_text()) == ("", before)
            assert f"{path}: another emulator keeps its state here" in told.err
        process.kill()
        process.wait(10)
    with running("--json", "--state", str(path)) as (line, process):
        assert httpx.get(json.loads(line)["url"], trust_env=False).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert {one.name for one in tmp_path.iterdir()} == {"state.json", "link.json"}


def test_who_could_not_begin_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("{}")
    state = StateFile(path)
    with pytest.raises(ConfigurationError, match="version"):
        state.begin(frozen())
    path.unlink()
    begun(path)
    assert path.exists()


def test_what_a_killed_server_was_writing_is_swept_away(tmp_path: Path) -> None:
    mine = tmp_path / ".state.json.swp"
    mine.touch()
    for name in ("state.json", "other.json"):
        (tmp_path / f".{name}.abc.faregate-new").write_text("half of")
    tenants, state = begun(tmp_path / "state.json")
    state.end(tenants)
    left = {".state.json.swp", ".other.json.abc.faregate-new", "state.json"}
    assert {one.name for one in tmp_path.iterdir()} == left


def test_calls_are_answered_while_the_state_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant stands still only while it is copied; what comes after that is not in the document."""
    tenants, state = begun(tmp_path / "state.json")
    answered: list[bool] = []

    def written(copy: EmulatorCopy) -> Iterator[str]:
        meanwhile = Thread(target=lambda: free(tenants.main), daemon=True)
        meanwhile.start()
        meanwhile.join(10)
        answered.append(not meanwhile.is_alive())
        return dump_document(copy)

    monkeypatch.setattr("faregate.emulator.emulator.dump_document", written)
    state.save(tenants)
    assert answered == [True]
    assert json.loads(state.path.read_text())["tenants"][0]["state"]["test"]["executions"] == []
    assert tenants.main.calls("access", status=200)


def free(emulator: Emulator) -> None:
    Hands(emulator).call("POST", "/access", access_body(emulator.revision_id("free_notes")))
