"""What the tests of the core share."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _without_sale_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever level other tests have left: lines of level INFO are for tests that ask for them."""
    caplog.set_level(logging.WARNING, "faregate")
