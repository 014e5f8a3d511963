"""Find the payment proof and the credentials in a request's headers. Pure.

The proof itself is never parsed. It must be unmistakable: one header, one value, one protocol version.
Anything else is refused before it is hashed, stored or sent.

Credentials bind a result to its payer. A settled payment is public: its authorization and signature stand in
the chain's calldata. A stranger can rebuild the proof where the service's instructions can be guessed. So a
result is handed out again only to a request with the credentials of the first one (decision 4, "Replay and
same client").
"""

import json
import re
import zlib
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

from faregate.core.models import Headers, Request, is_printable

# The proof

MAX_PROOF_BYTES = 16 * 1024
PROOF = "payment-signature"
PROOF_V1 = "x-payment"
PAYMENT_HEADERS = (b"payment-signature", b"payment_signature", b"x-payment", b"x_payment")
"""The headers about payment, in lower case. Some servers fold `_` into `-`, so both spellings are read."""


class BadProof(Exception):
    """A proof to refuse without a call: the `status`, `code` and `message` for the payer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def find_proof(request: Request) -> str | None:
    """The proof, or None. Raises `BadProof`: 431 over 16 KiB, 400 when it is ambiguous or malformed."""
    names = [name.lower() for name, _ in request.headers]
    if "_" in "".join(names):  # some servers fold `_` into `-`: two spellings are two proofs
        raise BadProof(400, "invalid_proof", "PAYMENT_SIGNATURE with underscores is not accepted")
    if PROOF not in names:
        return None
    if PROOF_V1 in names:
        raise BadProof(400, "invalid_proof", "Send PAYMENT-SIGNATURE or X-PAYMENT, not both")
    if names.count(PROOF) > 1:
        raise BadProof(400, "invalid_proof", "Send PAYMENT-SIGNATURE once")
    # HTTP allows spaces and tabs around a value, and some servers leave them there.
    return _check_proof(request.headers[names.index(PROOF)][1].strip(" \t"))


# The flow asks for the proof, and then the record of what a paywall has answered.
@lru_cache(maxsize=256)
def _check_proof(proof: str) -> str:
    if len(proof) > MAX_PROOF_BYTES:
        raise BadProof(431, "proof_too_large", f"PAYMENT-SIGNATURE may have {MAX_PROOF_BYTES} bytes")
    # Two values that a proxy joined have a comma between them.
    if not (proof and is_printable(proof)) or " " in proof or "," in proof:
        raise BadProof(400, "invalid_proof", "PAYMENT-SIGNATURE is not one base64 value")
    return proof


# Credentials

MAX_COOKIES = 64
"""Cookies of a request that are compared. A row of the journal stays small whatever a payer sends."""

EXACT, STABLE = "=", "~"
"""How the two forms of a renewed credential begin: as it was sent, and what stays when it is renewed."""
PREDICTABLE = "?"
"""How a credential begins that a stranger could guess, such as `lang=en`: compared, and proves nothing."""

CREDENTIAL_HEADERS = (b"authorization", b"cookie", b"idempotency-key")
"""The headers that hold credentials, in lower case."""
_HEADERS = ("authorization", "idempotency-key")

# Session ids, tokens and UUIDs match this, values such as `lang=en` do not.
_SECRET = re.compile(r"[\w-]{16}")

# Set by balancers, bot protection and analytics, not by the seller's app. They change from response to
# response, so a payer who comes back for a result would not be recognised by them.
_INFRASTRUCTURE_COOKIE = re.compile(
    r"(?i)awselb.*|awsalb.*|arraffinity.*|gclb|__cf.*|cf_.*|_cfuvid|incap_ses_.*|visid_incap_.*|nlbi_.*|bigip.*"
    r"|ts[0-9a-f]{6,}|ak_bmsc|bm_.*|datadome|routeid|serverid|_ga.*|_gid|_gat.*|_gcl.*|_fbp|_fbc|_hj.*|__utm.*"
    r"|applicationgatewayaffinity.*|ingresscookie|_abck|aws-waf-token|_px.*|reese84|_dd_s.*|_clck|_clsk|optanon.*"
    r"|__hs.*|hubspotutk|_uet.*|mp_.*_mixpanel|ph_.*_posthog|amp_[0-9a-f]+|amplitude_id.*|_pk_.*|_sp_(?:id|ses).*"
    r"|amcv_.*|ajs_.*|_vwo.*|_vis_opt_.*|optimizely.*|rxvt|rxvisitor|dtcookie.*|dtpc|dtsa.*"
)

# Written anew with every response by the signed sessions of Flask and Starlette (itsdangerous) and Django:
# content, time, signature.
_SIGNED_COOKIE = re.compile(r"(.+)[.:][\w-]{5,8}[.:][\w-]{27,86}")

# A JSON Web Token, behind `Bearer` or the name of a cookie: header, claims, signature. It is renewed within
# minutes; issuer and subject stay. They are read with a pattern, because the token is a stranger's.
_WEB_TOKEN = re.compile(r"(.*?[\s=])[\w-]+\.([\w-]{2,4096})\.[\w-]+")
_CLAIM = re.compile(r'"(iss|sub)"\s*:\s*"([^"\\]{1,256})"')


# What sessions call their user, without case and `_`: of Flask-Login, Django, Authlib, and by hand.
_USER_NAMES = frozenset(
    (
        *("accountid", "authuserid", "customerid", "email", "identity", "memberid", "sub", "uid", "user"),
        *("useremail", "userid", "username"),
    )
)
_ID_NAMES = frozenset((*_USER_NAMES, "id", "u"))
"""The names within such a value: also that of a UUID, which Flask writes as `{" u": "..."}`."""
_MAX_SESSION_BYTES = 1 << 16
_URL_SAFE = str.maketrans("+/", "-_")


_OF_COOKIES = re.compile("[=~?]?cookie ")


def find_credentials(headers: Headers) -> tuple[str, ...]:
    """The credentials of a request, each as text that compares equal only to the same credential.

    A signed cookie or a JSON Web Token is there in both forms, since a payer who comes back may have a
    renewed one. A signed cookie that names its user is there in a third one: users may share a wallet.
    """
    credentials: set[str] = set()
    cookies: set[str] = set()
    for name, value in headers:
        name = name.lower()
        if name in _HEADERS and value.strip():
            credentials.update(_build_forms(name, value.strip()))
        elif name == "cookie":
            cookies.update(filter(_is_sellers_cookie, (pair.strip() for pair in value.split(";"))))
    if not (credentials or cookies):
        return ()
    return (
        *sorted(credentials),
        *(form for pair in sorted(cookies)[:MAX_COOKIES] for form in _build_forms("cookie", pair)),
    )


def find_header_credentials(credentials: tuple[str, ...]) -> tuple[str, ...]:
    """The credentials that are no cookies, each in the form that stays when it is renewed."""
    return tuple(form for form in credentials if not _OF_COOKIES.match(form) and form[0] != EXACT)


def hash_credential(credential: str, hashed: Callable[[str], str]) -> str:
    """A hash that still shows whether it is a form of a signed cookie, or can be guessed."""
    form = credential[0] if credential[0] in (EXACT, STABLE, PREDICTABLE) else ""
    return form + hashed(credential)


def _build_forms(kind: str, credential: str) -> Iterator[str]:
    stable = _find_stable_part(kind, credential)
    value = credential.partition("=")[2] if kind == "cookie" else credential
    if stable is not None:
        yield f"{EXACT}{kind} {credential}"
        yield f"{STABLE}{kind} {stable}"
        # One more, and not another one: who logs in before coming back is still the same client.
        if kind == "cookie" and (user := _find_user(value)):
            yield f"{STABLE}{kind} {stable} {user}"
    elif kind == "authorization" or _SECRET.search(value):
        yield f"{kind} {credential}"
    else:
        yield f"{PREDICTABLE}{kind} {credential}"


def _find_stable_part(kind: str, credential: str) -> str | None:
    """Return the part that stays the same after a renewal; None for a credential that is not renewed."""
    if signed := _SIGNED_COOKIE.fullmatch(credential):
        # Of a cookie the name alone: another page may change its content before the payer returns.
        return signed[1].partition("=")[0] if kind == "cookie" else signed[1]
    token = _WEB_TOKEN.fullmatch(credential)
    claims = _read_claims(token[2]) if token else {}
    return f"{token[1]}{claims}" if token and "sub" in claims else None


def _find_user(value: str) -> str:
    """Find whom the content of a signed cookie names as its user; "" if it names none or cannot be read.

    The signature is not checked: what is read here is only compared.
    """
    signed = _SIGNED_COOKIE.fullmatch(value)
    content = "" if signed is None else signed[1].translate(_URL_SAFE)
    try:
        data = urlsafe_b64decode(f"{content.removeprefix('.')}==")
        if content.startswith("."):
            data = zlib.decompressobj().decompress(data, _MAX_SESSION_BYTES)
        session: Any = json.loads(data)
    except (ValueError, RecursionError, zlib.error):
        return ""
    user = _pick_scalars(session, _USER_NAMES)
    if isinstance(session, dict):
        for name, nested in cast("dict[str, Any]", session).items():
            if _fold(name) in _USER_NAMES and (ids := _pick_scalars(nested, _ID_NAMES)):
                user[name] = ids
    return json.dumps(user, sort_keys=True) if user else ""


def _pick_scalars(content: Any, names: frozenset[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        return {}
    pairs = cast("dict[str, Any]", content).items()
    return {name: value for name, value in pairs if _fold(name) in names and isinstance(value, str | int)}


def _fold(name: str) -> str:
    return name.lower().replace("_", "").strip()


def _read_claims(encoded: str) -> dict[str, str]:
    try:
        return dict(sorted(_CLAIM.findall(urlsafe_b64decode(f"{encoded}==").decode())))
    except ValueError:
        return {}


def _is_sellers_cookie(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return bool(value.strip('"')) and _INFRASTRUCTURE_COOKIE.fullmatch(name) is None
