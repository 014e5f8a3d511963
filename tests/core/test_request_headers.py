"""How a proof is found: which headers speak of payment, and what makes one unmistakable."""

import string

import pytest

from faregate.core.models import Request
from faregate.core.request_headers import BadProof, find_proof

NAME = "payment-signature"


@pytest.mark.parametrize(
    ("headers", "status", "code", "says"),
    [
        (((NAME, "x" * 16385),), 431, "proof_too_large", "PAYMENT-SIGNATURE may have 16384 bytes"),
        (((NAME, "a"), (NAME, "b")), 400, "invalid_proof", "Send PAYMENT-SIGNATURE once"),
        (((NAME, "a"), ("X-Payment", "b")), 400, "invalid_proof", "not both"),
        ((("PAYMENT_SIGNATURE", "a"),), 400, "invalid_proof", "underscores"),
        (((NAME, "a"), ("x_payment", "b")), 400, "invalid_proof", "underscores"),
        (((NAME, "a b"),), 400, "invalid_proof", "not one base64 value"),
        (((NAME, "a\n"),), 400, "invalid_proof", "not one base64 value"),
        (((NAME, "a,b"),), 400, "invalid_proof", "not one base64 value"),
        (((NAME, "\x7f"),), 400, "invalid_proof", "not one base64 value"),
    ],
)
def test_a_proof_that_is_not_unmistakable_is_refused(
    headers: tuple[tuple[str, str], ...], status: int, code: str, says: str
) -> None:
    with pytest.raises(BadProof, match=says) as bad:
        find_proof(Request("GET", "/", headers))
    assert (bad.value.status, bad.value.code) == (status, code)
    assert bad.value.message == str(bad.value)


def test_a_proof_is_any_visible_text_without_a_comma() -> None:
    visible = (string.ascii_letters + string.digits + string.punctuation).replace(",", "")
    assert find_proof(Request("GET", "/", (("Payment-Signature", visible),))) == visible


def test_spaces_around_a_proof_are_no_part_of_it() -> None:
    assert find_proof(Request("GET", "/", ((NAME, " \tabc= \t"),))) == "abc="


def test_another_protocols_proof_alone_is_no_proof() -> None:
    assert find_proof(Request("GET", "/", (("x-payment", "a"),))) is None
