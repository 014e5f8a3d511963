"""The line to the service: whole replies, whatever they say, over the client's own transport."""

import json
from collections.abc import Mapping
from typing import Any

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import NoAnswer
from faregate.merchant.api_key import ApiKey
from faregate.merchant.client import MerchantClient
from faregate.merchant.transports import Transport, blocking
from faregate.merchant.transports.url import BaseURL
from faregate.merchant.types import Environment
from faregate.merchant.wire import PROOF, ROOT, Call

_UNDECIDED = frozenset((429, 502, 503, 504))
Body = Mapping[str, Any] | bytes | None


class Line:
    """Calls with one key, with another, or with none. Raises `ServiceError` when no whole reply comes."""

    def __init__(
        self, key: ApiKey, base_url: str, *, timeout: float, transport: Transport | None = None
    ) -> None:
        self._transport = blocking(transport)
        self._address = BaseURL(base_url, key.environment)
        self._base_url = base_url
        self._timeout = timeout
        self._client = self._with(key)
        self.environment: Environment = key.environment

    def get(self, path: str, *, key: ApiKey | None = None) -> Response:
        return self._send(WireRequest("GET", ROOT + path), key)

    def post(self, path: str, body: Body, *, proof: str | None = None, key: ApiKey | None = None) -> Response:
        return self._send(_posted(path, body, proof), key)

    def get_without_key(self, path: str) -> Response:
        return self._bare(WireRequest("GET", ROOT + path))

    def post_without_key(self, path: str, body: Body, *, proof: str | None = None) -> Response:
        return self._bare(_posted(path, body, proof))

    def close(self) -> None:
        self._transport.close()

    def _send(self, request: WireRequest, key: ApiKey | None) -> Response:
        client = self._client if key is None else self._with(key)
        return client.send(Call(request, _whole))

    def _bare(self, request: WireRequest) -> Response:
        headers = (("Accept", "application/json"), *request.headers)
        url = self._address.url(request.path)
        return _whole(self._transport.send(request.method, url, headers, request.body, self._timeout))

    def _with(self, key: ApiKey) -> MerchantClient:
        return MerchantClient(key, self._base_url, transport=self._transport, timeout=self._timeout)


def _posted(path: str, body: Body, proof: str | None) -> WireRequest:
    headers: Headers = (("Content-Type", "application/json"),)
    if proof is not None:
        headers = (*headers, (PROOF, proof))
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return WireRequest("POST", ROOT + path, headers, content)


def _whole(reply: Response) -> Response:
    """The reply, if the service decided it: a limit or a gateway's trouble is no answer to the question."""
    if reply.status in _UNDECIDED:
        raise NoAnswer(f"the service is busy or away: {reply.status}")
    return reply
