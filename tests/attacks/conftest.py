"""Every site, served for each test that attacks it."""

from collections.abc import Generator

import pytest

from tests.attacks.site import Site, Target, attacked
from tests.attacks.sites import SITES


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number of attempts, closer together."""
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.02, 0.05))


@pytest.fixture(params=SITES, ids=lambda site: site.name)
def target(request: pytest.FixtureRequest) -> Generator[Target]:
    site: Site = request.param
    with attacked(site) as target:
        yield target
