"""`faregate probe` finds no difference on a database: every check passes as it does at the emulator."""

from pathlib import Path

import pytest

from faregate.cli import main
from faregate.emulator import TEST_KEY, TEST_PAYERS
from faregate.probe.checks import CHECKS
from faregate.rules.builtin_account import READ_ONLY_TEST_KEY
from faregate.system import system_clock
from tests.emulator.sql_accounts import open_source
from tests.emulator.sql_server import SqlSwitch, serve_app
from tests.emulator.sql_service import SqlService
from tests.service.databases import DATABASES


@pytest.mark.parametrize("kind", DATABASES)
def test_every_check_passes_on_a_database(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
    monkeypatch.setenv("FAREGATE_READ_ONLY_KEY", READ_ONLY_TEST_KEY)
    switch = SqlSwitch()
    with open_source(kind, tmp_path) as source, serve_app(switch.respond) as url:
        service = SqlService(source, clock=system_clock, expose_execution_id=True)
        switch.plug(service)
        before = [service.balance(TEST_PAYERS[name].address) for name in ("good", "reads")]
        # Its seller has an id: the probe cannot know what it sells in the other environment.
        foreign = service.revision_id("daily_report", "live")
        assert main(["probe", "--base-url", url, "--foreign-revision", foreign]) == 0
        after = [service.balance(TEST_PAYERS[name].address) for name in ("good", "reads")]
    table = capsys.readouterr().out
    assert f"{len(CHECKS)} passed, 0 failed, 0 skipped" in table, table
    assert [was - now for was, now in zip(before, after, strict=True)] == [10_000, 10_000]
