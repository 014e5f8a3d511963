"""`faregate probe` at the service inside a process: all passes, but the checks of keys that it lacks."""

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from faregate.emulator import TEST_KEY
from faregate.probe.checks import run_checks
from faregate.probe.config import open_session
from faregate.probe.fixtures import ProbeRun
from faregate.rules.builtin_account import builtin_account
from faregate.service.commands.setup import apply_seller
from faregate.service.database.upgrade import upgrade
from faregate.service.in_process import open_in_process
from tests.probe.test_checks import arguments
from tests.service.databases import DATABASES, empty_database
from tests.service.in_process import build_environ, open_storage_of

OF_KEYS: Final = {"access-wrong-key", "access-forbidden", "complete-forbidden"}
"""Whoever calls it is the application."""


@pytest.mark.parametrize("kind", DATABASES)
def test_every_check_passes_in_a_process(kind: str, tmp_path: Path) -> None:
    with empty_database(kind, tmp_path) as url:
        environ = build_environ(
            tmp_path,
            FAREGATE_SERVICE_DATABASE=url,
            FAREGATE_SERVICE_PAY_TO="",
            FAREGATE_SERVICE_EXPOSE_EXECUTION_ID="true",
        )
        upgrade(url)
        with open_storage_of(environ) as storage:
            apply_seller(storage, builtin_account())
        service = open_in_process("test", environ, {})
        with (
            closing(service),
            open_session(arguments(), {"FAREGATE_API_KEY": TEST_KEY}, transport=service) as session,
        ):
            observed = {
                one.id: one.observed for one in run_checks(ProbeRun(session)) if one.verdict != "pass"
            }
    assert observed.keys() == OF_KEYS, observed
