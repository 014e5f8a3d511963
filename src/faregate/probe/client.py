"""A client that returns the service's complete responses, whatever they say, over the usual transport."""

import json
from collections.abc import Mapping
from typing import Any

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import NoAnswer
from faregate.merchant.api_key import ApiKey
from faregate.merchant.client import MerchantClient
from faregate.merchant.requests import PROOF, ROOT, Call
from faregate.merchant.sender import BaseURL
from faregate.transports import Transport, make_sync
from faregate.x402.tokens import Environment

_TRANSIENT_STATUSES = frozenset((429, 502, 503, 504))
Body = Mapping[str, Any] | bytes | None


class RawClient:
    """Makes calls with its own key, another key or none. Raises `ServiceError` if no response comes."""

    def __init__(
        self, key: ApiKey, base_url: str, *, timeout: float, transport: Transport | None = None
    ) -> None:
        self._transport = make_sync(transport)
        self._url = BaseURL(base_url, key.environment)
        self.base_url = base_url
        self._timeout = timeout
        self._client = self._make_client(key)
        self.environment: Environment = key.environment

    def get(self, path: str, *, key: ApiKey | None = None) -> Response:
        return self._send(WireRequest("GET", ROOT + path), key)

    def post(self, path: str, body: Body, *, proof: str | None = None, key: ApiKey | None = None) -> Response:
        return self._send(_build_post(path, body, proof), key)

    def get_without_key(self, path: str) -> Response:
        return self._send_without_key(WireRequest("GET", ROOT + path))

    def post_without_key(self, path: str, body: Body, *, proof: str | None = None) -> Response:
        return self._send_without_key(_build_post(path, body, proof))

    def close(self) -> None:
        self._transport.close()

    def _send(self, request: WireRequest, key: ApiKey | None) -> Response:
        client = self._client if key is None else self._make_client(key)
        return client.send(Call(request, _check_decided))

    def _send_without_key(self, request: WireRequest) -> Response:
        # Not through MerchantClient, which always sends a key.
        headers = (("Accept", "application/json"), *request.headers)
        url = self._url.url(request.path)
        return _check_decided(self._transport.send(request.method, url, headers, request.body, self._timeout))

    def _make_client(self, key: ApiKey) -> MerchantClient:
        return MerchantClient(key, self.base_url, transport=self._transport, timeout=self._timeout)


def _build_post(path: str, body: Body, proof: str | None) -> WireRequest:
    headers: Headers = (("Content-Type", "application/json"),)
    if proof is not None:
        headers = (*headers, (PROOF, proof))
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return WireRequest("POST", ROOT + path, headers, content)


# A rate limit says nothing about the rule under test: the check is skipped, not failed.
def _check_decided(response: Response) -> Response:
    """Return the response if the service decided it. Rate limits and gateway errors raise `NoAnswer`."""
    if response.status in _TRANSIENT_STATUSES:
        raise NoAnswer(f"the service is busy or unavailable: {response.status}")
    return response
