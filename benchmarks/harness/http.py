"""One request at a time, for the checks; the load itself is wrk's."""

from dataclasses import dataclass
from email.message import Message
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

_opener = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Message
    body: bytes


def ask(url: str, proof: str | None = None) -> Reply:
    request = Request(url, headers={} if proof is None else {"PAYMENT-SIGNATURE": proof})
    try:
        with _opener.open(request, timeout=20) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except HTTPError as refusal:
        with refusal:
            return Reply(refusal.code, refusal.headers, refusal.read())
