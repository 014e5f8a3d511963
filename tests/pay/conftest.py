from collections.abc import Generator
from pathlib import Path

import pytest

from tests.pay.seller import Seller, run_seller


@pytest.fixture(autouse=True)
def _no_key_and_no_litter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FAREGATE_PAYER_KEY", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def served() -> Generator[Seller]:
    with run_seller() as seller:
        yield seller


@pytest.fixture
def seller(served: Seller) -> Seller:
    served.script_replies()
    return served
