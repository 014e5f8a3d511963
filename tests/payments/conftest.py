from collections.abc import Generator

import pytest
from examples.chain.facilitator import FacilitatorProcess, run_facilitator

from tests.support.chain import LocalChain, chain, payer

__all__ = ["chain", "payer"]


@pytest.fixture
def facilitator(chain: LocalChain) -> Generator[FacilitatorProcess]:
    """The official facilitator, in a process of its own, on this chain."""
    with run_facilitator(chain.url) as facilitator:
        yield facilitator
