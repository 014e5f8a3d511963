"""Who calls: `Authorization: Bearer <API_KEY>` (spec: Authentication). Pure."""

from collections.abc import Mapping

from faregate.core.models import Headers, header_values
from faregate.service.config import Capability, Key
from faregate.service.replies import Refusal


def key_of(headers: Headers, keys: Mapping[str, Key], allow_live: bool) -> Key:
    """The key of this call, or 401. Two `Authorization` headers are none."""
    values = header_values(headers, "authorization")
    if len(values) != 1:
        raise _unauthenticated("send one Authorization header: Bearer <API_KEY>")
    scheme, _, secret = values[0].partition(" ")
    key = keys.get(secret.strip(" "))
    if scheme.lower() != "bearer" or key is None:
        raise _unauthenticated("the API key is missing or not valid")
    if key.environment == "live" and not allow_live:
        raise _unauthenticated("live keys are not allowed here")
    return key


def demand(key: Key, capability: Capability) -> None:
    """403 if the key may not do this."""
    if capability not in key.capabilities:
        raise Refusal(403, "forbidden", f"this key lacks the capability {capability}")


def _unauthenticated(message: str) -> Refusal:
    return Refusal(401, "unauthenticated", message, (("WWW-Authenticate", "Bearer"),))
