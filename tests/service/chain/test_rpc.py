"""The JSON-RPC client: what it believes, what it says when it fails, and that it never shows a key."""

import json
import logging
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

import faregate.service.chain.rpc
from faregate.errors import ConfigurationError
from faregate.service.chain.rpc import RpcClient, RpcError
from tests.support.chain import LocalChain
from tests.support.rpc_proxy import NO_ANSWER, RpcFault, RpcProxy, serve_rpc_proxy
from tests.support.threads import run_in_threads

KEY = "s3cret-k3y-0123456789"
CHAIN = hex(84532)


@pytest.fixture
def proxy(chain: LocalChain) -> Generator[RpcProxy]:
    with serve_rpc_proxy(chain.url, f"/v2/{KEY}") as proxy:
        yield proxy


@pytest.fixture
def client(proxy: RpcProxy) -> Generator[RpcClient]:
    client = RpcClient([proxy.url], seconds=5)
    yield client
    client.close()


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_a_call_gives_the_result(client: RpcClient) -> None:
    assert client.call("eth_chainId") == CHAIN


def test_many_threads_share_a_client(chain: LocalChain, client: RpcClient) -> None:
    chain.mine(20)
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        found[number] = client.call("eth_getBlockByNumber", hex(number), False)["number"]

    run_in_threads(*(partial(ask, number) for number in range(20)))
    assert found == {number: hex(number) for number in range(20)}


def test_an_error_has_the_code_and_message_of_the_node(client: RpcClient) -> None:
    with pytest.raises(RpcError, match="error -32601: Method not found") as caught:
        client.call("eth_nothing")
    assert caught.value.code == -32601


UNUSABLE: dict[str, tuple[int, bytes]] = {
    "empty": (200, b""),
    "no JSON": (200, b"<html>busy</html>"),
    "list": (200, b"[]"),
    "text": (200, b'"0x14a34"'),
    "no result": (200, b'{"jsonrpc": "2.0", "id": 1}'),
    "another id": (200, b'{"jsonrpc": "2.0", "id": 99999, "result": "0x1"}'),
    "no id": (200, b'{"jsonrpc": "2.0", "id": null, "result": "0x1"}'),
    "id of another type": (200, b'{"jsonrpc": "2.0", "id": true, "result": "0x1"}'),
    "status 500": (500, b'{"jsonrpc": "2.0", "id": 1, "result": "0x1"}'),
    "status 429": (429, b"too many"),
    "too deep": (200, b"[" * 100_000),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_unusable_answer_is_an_error(client: RpcClient, proxy: RpcProxy, kind: str) -> None:
    proxy.status, proxy.raw = UNUSABLE[kind]
    with pytest.raises(RpcError) as caught:
        client.call("eth_chainId")
    assert caught.value.code is None


def test_a_reply_that_is_too_large_is_an_error_with_a_code(
    proxy: RpcProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node did answer: a narrower question may get an answer that can be read."""
    monkeypatch.setattr(faregate.service.chain.rpc, "MAX_NODE_REPLY_BYTES", 1000)
    client = RpcClient([proxy.url])
    answer = b'{"jsonrpc": "2.0", "id": 1, "result": "%s"}'
    proxy.raw = answer % (b"0" * (1000 - len(answer) + 2))
    assert client.call("eth_chainId").startswith("000")
    proxy.raw = answer.replace(b": 1", b": 2") % (b"0" * (1001 - len(answer) + 2))
    with pytest.raises(RpcError, match="more than 1000 bytes") as caught:
        client.call("eth_chainId")
    assert caught.value.code is not None
    client.close()


@pytest.mark.parametrize("error", [{"code": -32000, "message": "no"}, {"message": "no"}, "no", 7])
def test_an_error_counts_at_any_status(client: RpcClient, proxy: RpcProxy, error: object) -> None:
    proxy.status = 400
    proxy.raw = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    with pytest.raises(RpcError) as caught:
        client.call("eth_chainId")
    assert caught.value.code is not None


def test_the_next_node_is_asked(chain: LocalChain, proxy: RpcProxy, closed_port: int) -> None:
    def fail(params: list[Any], result: Any) -> Any:
        raise RpcFault(-32005, "rate limit")

    proxy.change["eth_chainId"] = fail
    client = RpcClient([f"http://127.0.0.1:{closed_port}", proxy.url, chain.url])
    assert client.call("eth_chainId") == CHAIN
    assert proxy.count("eth_chainId") == 1


def test_the_last_error_is_raised_if_no_node_answers(client: RpcClient, proxy: RpcProxy) -> None:
    proxy.change["eth_chainId"] = lambda params, result: NO_ANSWER
    with pytest.raises(RpcError, match=r"RPC node 127\.0\.0\.1:\d+, eth_chainId: ") as caught:
        client.call("eth_chainId")
    assert caught.value.code is None


def test_a_node_that_hangs_costs_no_more_than_the_time_of_a_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = RpcClient([f"http://127.0.0.1:{listener.getsockname()[1]}"], seconds=0.2)
        with pytest.raises(RpcError):
            client.call("eth_chainId")
        client.close()


def test_a_user_and_password_are_sent_as_basic(chain: LocalChain) -> None:
    with serve_rpc_proxy(chain.url) as proxy:
        client = RpcClient([proxy.url.replace("//", "//ann:pass%20word@")])
        client.call("eth_chainId")
        client.close()
    assert proxy.heads[0]["Authorization"] == "Basic YW5uOnBhc3Mgd29yZA=="
    assert proxy.heads[0]["Host"] in proxy.url
    assert "pass" not in repr(client)


@pytest.mark.parametrize("place", ["/v2/{}", "/?apikey={}", "/rpc/{}/base?x=1", "{}@"])
def test_a_key_is_never_shown(
    chain: LocalChain, caplog: pytest.LogCaptureFixture, place: str, closed_port: int
) -> None:
    """Neither by the errors of the transport, nor where a node repeats its URL and key in a message."""
    with serve_rpc_proxy(chain.url) as proxy:
        urls = [_build_url(address, place) for address in (f"http://127.0.0.1:{closed_port}", proxy.url)]
        client = RpcClient(urls)
        proxy.raw = json.dumps({"error": {"code": 1, "message": f"{KEY} of {urls[1]} is revoked"}}).encode()
        with caplog.at_level(logging.DEBUG), pytest.raises(RpcError, match="is revoked") as caught:
            client.call("eth_chainId")
        client.close()
    shown = [caplog.text, str(caught.value), repr(client), *map(repr, client.nodes), repr(caught.value)]
    assert not any(KEY in text for text in shown)
    assert "127.0.0.1" in caplog.text
    assert caught.value.__context__ is None


def _build_url(address: str, place: str) -> str:
    if place.endswith("@"):
        return address.replace("//", f"//ann:{KEY}@")
    return address.rstrip("/") + place.format(KEY)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "node.example",
            "ftp://node/",
            "wss://node",
            "http://",
            "https://node:0/",
            "https://node:99999",
        ),
        *("https://node/#a", "https://nöde/", "https://no de/", "https://node\\x"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RPC URL") as caught:
        RpcClient([url])
    assert not url or url not in str(caught.value)


def test_a_client_needs_a_url() -> None:
    with pytest.raises(ConfigurationError, match="no RPC URL"):
        RpcClient([])
