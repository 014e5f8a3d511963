"""Who gets a result again: the flow's side. What rows do is in tests/journals/test_same_client.py."""

import base64
import json
import secrets
import uuid
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import flask
import itsdangerous
import pytest
from django.core import signing

from faregate.core.claim_types import (
    AlreadyUsed,
    Claimant,
    ClientMismatch,
    ClientUnverified,
    Recoverable,
    Replayable,
    ReplayPolicy,
)
from faregate.core.flow import CROWD_PAUSES
from faregate.core.models import Headers, Offer, PaidRequest, Response
from faregate.core.request_headers import EXACT, MAX_COOKIES, PREDICTABLE, STABLE, find_credentials
from faregate.core.results import AccessFailed, AccessUnpaid, Predictability, TransactionSettled
from faregate.errors import NoAnswer
from faregate.events import Redelivered, Refused
from tests.core.flow_script import (
    BEGINNING,
    ENTRY,
    GOOD,
    HELD,
    OFFER,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
    SOLD,
    TXN,
    WARNED,
    WORK,
    AnyOf,
    Raise,
    asked_without_proof,
    claimed,
    code,
    completed,
    events_of,
    found,
    handled,
    looked_up,
    play,
    play_sale,
    recorded,
    sale,
    settled,
)
from tests.core.steps import (
    CallComplete,
    ClaimProof,
    GetKnownRevision,
    RecallPredictability,
    RecordPredictability,
    Sleep,
    serve,
)
from tests.support.headers import encode_header

REPLAYED = Replayable(RESULT, "cmVjZWlwdA==", TXN)
CLIENT_UNVERIFIED = claimed(ClientUnverified(TXN))
NOT_KNOWN = (RecallPredictability(), Predictability.UNKNOWN)
RECALLED_SECRET = (RecallPredictability(), Predictability.UNPREDICTABLE)
RECALLED_PUBLIC = (RecallPredictability(), Predictability.PREDICTABLE)
CLAIM_SAME_PROOF = ClaimProof(
    PROOF, Claimant("GET /summary?q=1", replay=ReplayPolicy.PROVEN_PAYER, sold=SOLD)
)


def instructions(value: str = "") -> AccessUnpaid:
    """A 402 whose instructions carry this value."""
    accepts = [{"scheme": "exact", "amount": "50000", "extra": {"name": "USDC", "id": value}}]
    header = encode_header({"accepts": accepts})
    return AccessUnpaid(Response(402, (("PAYMENT-REQUIRED", header),), b"{}"))


def fresh_value() -> str:
    return secrets.token_urlsafe(24)


def with_headers(one: PaidRequest, *headers: tuple[str, str]) -> PaidRequest:
    return replace(one, http=replace(one.http, headers=(*one.http.headers, *headers)))


def test_unpredictable_proof_alone_replays() -> None:
    response = play_sale(CLIENT_UNVERIFIED, RECALLED_SECRET, (CLAIM_SAME_PROOF, REPLAYED))
    assert (response.status, response.body, response.released) == (200, RESULT.body, True)
    events = events_of(serve(sale()), CLIENT_UNVERIFIED, RECALLED_SECRET, (CLAIM_SAME_PROOF, REPLAYED))
    assert events == [Redelivered(TXN)]


def test_whether_instructions_can_be_guessed_is_found_out_by_asking_twice() -> None:
    two = (asked_without_proof(instructions(fresh_value())), asked_without_proof(instructions(fresh_value())))
    script = (
        CLIENT_UNVERIFIED,
        NOT_KNOWN,
        found(),
        *two,
        (RecordPredictability(Predictability.UNPREDICTABLE), None),
    )
    assert play_sale(*script, (CLAIM_SAME_PROOF, REPLAYED)).status == 200


@pytest.mark.parametrize("second", [instructions("same"), AccessUnpaid(Response(402, (), b"{}"))])
def test_what_can_be_guessed_replays_nothing(second: AccessUnpaid) -> None:
    """Nor does it claim again: what a stranger tries uses nothing up."""
    two = (asked_without_proof(instructions("same")), asked_without_proof(second))
    script = (
        CLIENT_UNVERIFIED,
        NOT_KNOWN,
        found(),
        *two,
        WARNED,
        (RecordPredictability(Predictability.PREDICTABLE), None),
    )
    response = play_sale(*script)
    assert (response.status, code(response)) == (409, "proof_already_used")
    assert b"Idempotency-Key" in response.body
    assert RESULT.body not in response.body


def test_what_is_known_to_be_predictable_is_not_asked_again() -> None:
    response = play_sale(CLIENT_UNVERIFIED, RECALLED_PUBLIC)
    assert (response.status, code(response)) == (409, "proof_already_used")


@pytest.mark.parametrize(
    "script",
    [
        (found(Raise(NoAnswer("down"))), (GetKnownRevision(OFFER), None)),
        (found(), asked_without_proof(AccessFailed(503, "busy"))),
    ],
)
def test_while_it_cannot_be_found_out_the_payer_comes_back_later(script: Any) -> None:
    response = play_sale(CLIENT_UNVERIFIED, NOT_KNOWN, *script)
    assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_crowd_waits_for_the_request_that_finds_it_out() -> None:
    asking = (RecallPredictability(), Predictability.BEING_CHECKED)
    waiting = (asking, (Sleep(CROWD_PAUSES[0]), None), asking, (Sleep(CROWD_PAUSES[1]), None))
    assert play_sale(CLIENT_UNVERIFIED, *waiting, RECALLED_SECRET, (CLAIM_SAME_PROOF, REPLAYED)).status == 200


def test_a_crowd_does_not_wait_for_ever() -> None:
    asking = (RecallPredictability(), Predictability.BEING_CHECKED)
    waiting = [step for pause in CROWD_PAUSES for step in ((Sleep(pause), None), asking)]
    response = play_sale(CLIENT_UNVERIFIED, asking, *waiting)
    assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_replay_that_was_used_up_meanwhile_is_refused() -> None:
    response = play_sale(CLIENT_UNVERIFIED, RECALLED_SECRET, (CLAIM_SAME_PROOF, AlreadyUsed(TXN)))
    assert (response.status, code(response)) == (409, "proof_already_used")


def test_an_offer_that_is_never_replayed_says_so_to_the_journal() -> None:
    offer = Offer("text_summary", replay=False)
    claim = ClaimProof(PROOF, Claimant("GET /summary?q=1", replay=ReplayPolicy.NEVER, sold=SOLD))
    assert play(serve(sale(offer=offer)), (claim, AlreadyUsed(TXN))).status == 409


def test_another_client_learns_why_and_nothing_else() -> None:
    response = play_sale(claimed(ClientMismatch()))
    assert (response.status, code(response)) == (409, "proof_already_used")
    assert b"Authorization, Cookie and Idempotency-Key" in response.body
    assert TXN.encode() not in response.body
    assert events_of(serve(sale()), claimed(ClientMismatch())) == [Refused(409, "proof_already_used")]


def test_what_a_request_shows_of_itself_is_claimed_with_its_proof() -> None:
    one = with_headers(sale(), ("Authorization", "Bearer x"), ("cookie", "sid=1; lang=de"))
    one = replace(one, http=replace(one.http, body_digest="d1"))
    shown = ("authorization Bearer x", "?cookie lang=de", "?cookie sid=1")
    claim = ClaimProof(PROOF, Claimant("GET /summary?q=1", shown, "d1", ReplayPolicy.SAME_CLIENT, SOLD))
    assert play(serve(one), (claim, AlreadyUsed(TXN))).status == 409


def test_a_cookie_is_sent_with_the_first_result_and_never_stored() -> None:
    headers = (*RESULT.headers, ("Set-Cookie", "sid=1"), ("set-cookie", "lang=de"))
    result = replace(RESULT, headers=headers)
    script = (
        *BEGINNING,
        handled(replace(WORK, response=result)),
        recorded(GOOD),
        (AnyOf(CallComplete), PAID),
        settled(),
    )
    response = play_sale(*script)
    assert [value for name, value in response.headers if name.lower() == "set-cookie"] == ["sid=1", "lang=de"]


# Credentials


@pytest.mark.parametrize(
    ("headers", "credentials"),
    [
        ((), ()),
        ((("accept", "*/*"), ("payment-signature", "p")), ()),
        ((("AUTHORIZATION", " Basic eA== "),), ("authorization Basic eA==",)),
        ((("Idempotency-Key", "k1"),), ("?idempotency-key k1",)),
        ((("Authorization", " "), ("Cookie", "; ;a=;b"),), ()),
        ((("cookie", "b=2"), ("Cookie", "a=1; b=2")), ("?cookie a=1", "?cookie b=2")),
        ((("cookie", "a=1=2"),), ("?cookie a=1=2",)),
        ((("cookie", "AWSALB=x; _ga_AB12=y; __cf_bm=z; sid=s"),), ("?cookie sid=s",)),
        ((("cookie", "_dd_s=x; OptanonConsent=y; _abck=z; ph_a_posthog=v; _pk_ses.1=w"),), ()),
    ],
)  # fmt: skip
def test_credentials(headers: Headers, credentials: tuple[str, ...]) -> None:
    assert find_credentials(headers) == credentials


@pytest.mark.parametrize(
    ("header", "is_predictable"),
    [
        (("cookie", "lang=en"), True),
        (("cookie", "a_cookie_with_a_long_name=1"), True),
        (("cookie", "tz=America/Argentina/Buenos_Aires"), True),
        (("idempotency-key", "1"), True),
        (("cookie", f"sessionid={secrets.token_hex(16)}"), False),
        (("cookie", f"connect.sid=s%3A{secrets.token_urlsafe(24)}.c2ln"), False),
        (("idempotency-key", "0c5f7c1e-6f0e-4b58-9a8c-1f0a9d1e2b3c"), False),
        (("authorization", "Basic eA=="), False),  # somebody checks it
    ],
)
def test_what_a_stranger_could_guess_is_marked(header: tuple[str, str], is_predictable: bool) -> None:
    [credential] = find_credentials((header,))
    assert credential.startswith(PREDICTABLE) == is_predictable


def test_a_thousand_cookies_do_not_make_a_large_row() -> None:
    many = "; ".join(f"c{number:04}=x" for number in range(1000))
    assert len(find_credentials((("cookie", many),))) == MAX_COOKIES


def signed_by_starlette(content: str, now: float) -> str:
    with patch("time.time", lambda: now):
        return itsdangerous.TimestampSigner("a secret").sign(content).decode()


def sign_with_flask(session: dict[str, Any]) -> str:
    app = flask.Flask(__name__)
    app.secret_key = "a secret"
    serializer = flask.sessions.SecureCookieSessionInterface().get_signing_serializer(app)
    assert serializer is not None
    return str(serializer.dumps(session))


def signed_by_flask(content: str, now: float) -> str:
    with patch("time.time", lambda: now):
        return sign_with_flask({"user": content})


def signed_by_django(content: str, now: float) -> str:
    signer = signing.TimestampSigner(key="a secret", fallback_keys=[])
    with patch("time.time", lambda: now):
        return signer.sign_object({"user": content})


def web_token(content: str, now: float) -> str:
    parts = (
        {"alg": "HS256"},
        {"sub": content, "iss": "https://id.example", "exp": int(now)},
        secrets.token_hex(16),
    )
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().strip("=") for part in parts)


@pytest.mark.parametrize("header", ["cookie: session={}", "authorization: Bearer {}"])
@pytest.mark.parametrize("sign", [signed_by_starlette, signed_by_flask, signed_by_django, web_token])
def test_a_renewed_credential_has_a_form_that_stays(sign: Callable[[str, float], str], header: str) -> None:
    def credentials(content: str, now: float) -> list[str]:
        name, _, value = header.partition(": ")
        return sorted(find_credentials(((name, value.format(sign(content, now))),)))

    first, later, other = (
        credentials("alice", 1.79e9),
        credentials("alice", 1.79e9 + 1),
        credentials("bob", 1.79e9),
    )
    is_user_named = header.startswith("cookie") and sign in (signed_by_flask, signed_by_django)
    assert [form[0] for form in first] == [EXACT, STABLE, *([STABLE] if is_user_named else [])]
    assert (first[0] == later[0], first[1:] == later[1:]) == (False, True)
    assert first[0] != other[0]
    # A token names its user. The content of a signed cookie may change with each page that the payer visits.
    is_signed_cookie = header.startswith("cookie") and sign is not web_token
    assert (first[1] == other[1]) == is_signed_cookie


def sign_with_starlette(session: dict[str, Any]) -> str:
    return signed_by_starlette(base64.b64encode(json.dumps(session).encode()).decode(), 1.79e9)


def sign_with_django(session: dict[str, Any]) -> str:
    return signing.dumps(session, key="a secret", compress=True)


SIGN = (sign_with_starlette, sign_with_flask, sign_with_django)
LONG = {"cart": ["something that is bought often"] * 20}


def is_same_client(first: str, again: str) -> bool:
    stable, credentials = (
        set(find_credentials((("cookie", f"session={value}"),))) for value in (first, again)
    )
    return {form for form in stable if form[0] == STABLE} <= credentials


@pytest.mark.parametrize("more", [{}, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("alice", "bob"),
    [
        ({"_user_id": "1"}, {"_user_id": "2"}),
        ({"_auth_user_id": "1"}, {"_auth_user_id": "2"}),
        ({"user": "alice"}, {"user": "bob"}),
        ({"userId": 1}, {"userId": 2}),
        ({"user": {"id": 1, "seen": 5}}, {"user": {"id": 2, "seen": 5}}),
        ({"user": {"sub": "a", "exp": 5}}, {"user": {"sub": "b", "exp": 5}}),
    ],
)
@pytest.mark.parametrize("sign", SIGN)
def test_users_of_one_wallet_are_told_apart_by_their_sessions(
    sign: Callable[[dict[str, Any]], str], alice: dict[str, Any], bob: dict[str, Any], more: dict[str, Any]
) -> None:
    assert not is_same_client(sign(alice | more), sign(bob | more))
    assert not is_same_client(sign(alice | more), sign(more | {"other": 1})), "logged out"
    assert is_same_client(sign(alice), sign(alice | more)), "another page has written"
    assert is_same_client(sign(more | {"other": 1}), sign(alice)), "logged in"


@pytest.mark.parametrize("sign", SIGN)
def test_a_user_is_known_by_what_does_not_change(sign: Callable[[dict[str, Any]], str]) -> None:
    first, again = ({"id": "1", "seen": moment, "roles": [moment]} for moment in (1, 2))
    assert is_same_client(sign({"user": first, "user_seen": 1}), sign({"user": again, "user_seen": 2}))
    assert is_same_client(sign({"user": ["not", "one"]}), sign({"user": {"seen": 1}}))


def test_a_uuid_of_flask_names_a_user() -> None:
    first, other = (sign_with_flask({"user_id": uuid.uuid4()}) for _ in range(2))
    assert is_same_client(first, first)
    assert not is_same_client(first, other)


@pytest.mark.parametrize(
    "content",
    [
        "not base64!",
        base64.urlsafe_b64encode(b"[1]").decode(),
        base64.urlsafe_b64encode(b"[" * 3000).decode(),
        base64.urlsafe_b64encode(b'{"user": ').decode(),
        "." + base64.urlsafe_b64encode(b"not compressed").decode(),
        "." + base64.urlsafe_b64encode(zlib.compress(b" " * 10_000_000)).decode(),
    ],
)
def test_a_cookie_that_names_nobody_is_compared_by_its_name(content: str) -> None:
    signed = signed_by_starlette(content, 1.79e9)
    assert [form[0] for form in find_credentials((("cookie", f"session={signed}"),))] == [EXACT, STABLE]


def test_a_token_whose_signature_guards_its_content_is_compared_whole() -> None:
    header, content, signature = (
        secrets.token_urlsafe(27),
        secrets.token_urlsafe(60),
        secrets.token_urlsafe(32),
    )
    assert find_credentials((("cookie", f"jwt={header}.{content}.{signature}"),)) == (
        f"cookie jwt={header}.{content}.{signature}",
    )


def test_a_held_result_is_settled_where_the_proof_is_enough() -> None:
    again = (CLIENT_UNVERIFIED, RECALLED_SECRET, (CLAIM_SAME_PROOF, Recoverable(HELD)))
    response = play_sale(*again, looked_up(TransactionSettled(RECEIPT)), completed(PAID, HELD), settled())
    assert (response.body, response.released) == (RESULT.body, True)


def test_credentials_are_not_shown() -> None:
    assert "canary" not in repr(Claimant("GET /", ("authorization canary",)))
    assert "canary" not in repr(ENTRY)
    assert "canary" not in repr(with_headers(sale(), ("authorization", "canary")))
