from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from examples.chain.facilitator import FacilitatorProcess, run_facilitator
from examples.chain.typescript_payer import NoTypeScript

from faregate.service.chain.chain_reader import ChainReader
from tests.servers.shared import need
from tests.service.chain.books import Books, FaultyNode, MakeReader
from tests.service.chain.direct_fixtures import direct, gas, row, worker
from tests.support import facilitators
from tests.support.chain import ChainPayer, LocalChain, chain, payer
from tests.support.rpc_proxy import RpcProxy, serve_rpc_proxy

__all__ = ["chain", "direct", "gas", "payer", "row", "worker"]


@pytest.fixture
def facilitator(chain: LocalChain) -> Generator[FacilitatorProcess]:
    """The official facilitator, in a process of its own, on this chain."""
    with facilitators.run_facilitator(chain.url) as facilitator:
        yield facilitator


@pytest.fixture(params=["python", "typescript"])
def any_facilitator(request: pytest.FixtureRequest, chain: LocalChain) -> Generator[FacilitatorProcess]:
    """Each official facilitator, on this chain. It waits for a block for half a second."""
    if request.param == "python":
        with facilitators.run_facilitator(chain.url, patience=0.5) as facilitator:
            yield facilitator
        return
    try:
        with run_facilitator(chain.url, language=request.param, patience=0.5) as facilitator:
            yield facilitator
    except NoTypeScript as error:
        need("npm", str(error))


@pytest.fixture
def proxy(chain: LocalChain) -> Generator[RpcProxy]:
    with serve_rpc_proxy(chain.url) as proxy:
        yield proxy


@pytest.fixture
def other_proxy(chain: LocalChain) -> Generator[RpcProxy]:
    with serve_rpc_proxy(chain.url) as proxy:
        yield proxy


@pytest.fixture
def make_reader(chain: LocalChain) -> Generator[MakeReader]:
    made: list[ChainReader] = []

    def make(*urls: str, **settings: Any) -> ChainReader:
        clock = lambda: datetime.fromtimestamp(chain.time, UTC)  # noqa: E731
        made.append(ChainReader(84532, urls, clock=clock, **settings))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


@pytest.fixture
def reader(make_reader: MakeReader, proxy: RpcProxy) -> ChainReader:
    return make_reader(proxy.url)


@pytest.fixture
def books(chain: LocalChain, payer: ChainPayer) -> Books:
    return Books(chain, payer)


@pytest.fixture
def node(chain: LocalChain, proxy: RpcProxy, books: Books, make_reader: MakeReader) -> FaultyNode:
    return FaultyNode(chain, proxy, books, make_reader)
