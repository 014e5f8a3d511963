"""The scheme `upto`: what the official client signs is what is read, hashed and recovered here."""

from random import Random
from typing import Any

import pytest
from eth_account import Account
from hypothesis import given, settings
from hypothesis import strategies as st
from x402.mechanisms.evm import constants
from x402.mechanisms.evm.upto.client import UptoEvmScheme
from x402.schemas import PaymentRequirements

from faregate.x402.eip712 import build_typed_data, recover_signer
from faregate.x402.headers import (
    InvalidPayload,
    build_requirements,
    find_authorization,
    find_payer,
    find_validity,
    parse_payment,
)
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.permit2 import PERMIT2, UPTO_PROXY
from faregate.x402.tokens import TOKENS, Token
from tests.support.usage_payments import CHALLENGE, Change, encode_proof, pay_usage, sign_usage

USDC = TOKENS["test", "USDC"]
FACILITATOR = "0x" + "Fa" * 20
TERMS = Terms(USDC, 500_000, "0x" + "ab" * 20, 60, (FACILITATOR,))
KEY = "0x" + "11" * 32
PERMIT = ("payload", "permit2Authorization")

addresses = st.integers(1, 2**160 - 1).map("0x{:040x}".format)


def test_the_addresses_are_those_of_the_official_package() -> None:
    assert PERMIT2 == constants.PERMIT2_ADDRESS
    assert UPTO_PROXY == constants.X402_UPTO_PERMIT2_PROXY_ADDRESS


def test_the_terms_are_what_the_official_server_makes_of_them() -> None:
    from x402.mechanisms.evm.upto.server import UptoEvmScheme as Server
    from x402.schemas import SupportedKind

    bare = build_requirements(Terms(USDC, 500_000, TERMS.pay_to, 60)) | {"scheme": "upto"}
    kind = SupportedKind(
        x402_version=2, scheme="upto", network=USDC.network, extra={"facilitatorAddress": FACILITATOR}
    )
    server: Any = Server  # it has no types
    made = server().enhance_payment_requirements(PaymentRequirements.model_validate(bare), kind, [])
    assert build_requirements(TERMS) == made.model_dump(by_alias=True, exclude_none=True)


@settings(max_examples=25, deadline=None)
@given(
    amount=st.integers(1, 10**30 - 1),
    pay_to=addresses,
    facilitator=addresses,
    token=st.sampled_from([*TOKENS.values()]),
    key=st.integers(1, 2**250),
    seconds=st.integers(1, 10**6),
)
def test_the_official_clients_payment_is_read_and_its_signer_found(
    amount: int, pay_to: str, facilitator: str, token: Token, key: int, seconds: int
) -> None:
    terms = Terms(token, amount, pay_to, seconds, (facilitator,))
    payload = sign_usage(key.to_bytes(32, "big"), terms)
    proof = encode_proof(payload)
    payment, signed = parse_payment(proof), payload["payload"]["permit2Authorization"]
    account = Account.from_key(key.to_bytes(32, "big"))
    assert recover_signer(payment, token) == account.address
    assert payment.scheme == "upto"
    assert (payment.payer, payment.to, payment.value) == (account.address.lower(), pay_to, amount)
    assert (payment.facilitator, payment.nonce) == (facilitator, signed["nonce"])
    assert payment.deadline == int(signed["deadline"]) == payment.valid_before - 1
    assert find_payer(proof) == payment.payer
    assert find_authorization(proof) == f"{payment.payer}/{payment.nonce}"
    assert find_validity(proof) == payment.deadline - payment.valid_after


@settings(max_examples=25, deadline=None)
@given(
    value=st.integers(0, 2**256 - 1),
    nonce=st.integers(0, 2**256 - 1),
    deadline=st.integers(0, 2**256 - 1),
    valid_after=st.integers(0, 2**256 - 1),
    to=addresses,
    facilitator=addresses,
)
def test_any_permit_hashes_as_with_eth_account(
    value: int, nonce: int, deadline: int, valid_after: int, to: str, facilitator: str
) -> None:
    from eth_account.messages import encode_typed_data

    message = {
        "permitted": {"token": USDC.address, "amount": value},
        "spender": UPTO_PROXY,
        "nonce": nonce,
        "deadline": deadline,
        "witness": {"to": to, "facilitator": facilitator, "validAfter": valid_after},
    }
    domain = {"name": "Permit2", "chainId": USDC.chain, "verifyingContract": PERMIT2}
    official = encode_typed_data(domain, constants.UPTO_PERMIT2_WITNESS_TYPES, message)
    payment = SignedPayment(
        "0x" + "00" * 20, to, value, valid_after, deadline + 1, str(nonce), "0x", "", facilitator=facilitator
    )
    assert build_typed_data(payment, USDC) == (official.version, official.header, official.body)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*PERMIT, "permitted", "amount"), "500001"),
        ((*PERMIT, "nonce"), "7"),
        ((*PERMIT, "deadline"), "4000000000"),
        ((*PERMIT, "from"), "0x" + "33" * 20),
        ((*PERMIT, "witness", "to"), "0x" + "33" * 20),
        ((*PERMIT, "witness", "facilitator"), "0x" + "33" * 20),
        ((*PERMIT, "witness", "validAfter"), "1"),
    ],
)
def test_whatever_is_changed_is_not_what_was_signed(path: tuple[str, ...], value: str) -> None:
    payment = parse_payment(encode_proof(Change(path, value).apply(sign_usage(KEY, TERMS))))
    assert (recover_signer(payment, USDC) or "").lower() != payment.payer


def test_a_permit_of_another_chain_or_token_has_another_signer() -> None:
    payment = pay_usage(KEY, TERMS)
    for other in (TOKENS["live", "USDC"], TOKENS["test", "EURC"]):
        assert recover_signer(payment, other) != Account.from_key(KEY).address


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((*PERMIT, "spender"), "0x" + "33" * 20, "spender must be"),
        ((*PERMIT, "permitted", "token"), TOKENS["test", "EURC"].address, "permitted.token must be"),
        ((*PERMIT, "permitted"), None, "permitted is missing"),
        ((*PERMIT, "witness"), "x", "witness is missing"),
        # The scheme `exact` under Permit2 has a witness without it.
        ((*PERMIT, "witness", "facilitator"), None, "facilitator"),
        ((*PERMIT, "nonce"), "0x07", "nonce"),
        ((*PERMIT, "nonce"), "007", "nonce"),
        ((*PERMIT, "deadline"), 5, "deadline"),
        ((*PERMIT, "permitted", "amount"), "-1", "amount"),
        ((*PERMIT, "permitted", "amount"), str(2**256), "amount"),
        (("payload", "signature"), "0x", "signature"),
        (PERMIT, [], "permit2Authorization"),
    ],
)
def test_what_contradicts_itself_cannot_be_read(path: tuple[str, ...], value: Any, words: str) -> None:
    proof = encode_proof(Change(path, value).apply(sign_usage(KEY, TERMS)))
    with pytest.raises(InvalidPayload, match=words):
        parse_payment(proof)


def test_nothing_of_a_proof_that_cannot_be_read_is_found() -> None:
    payload = {"payload": {"permit2Authorization": {"from": 5, "nonce": "1", "deadline": "x"}}}
    proof = encode_proof(payload)
    assert (find_payer(proof), find_authorization(proof), find_validity(proof)) == ("", "", 0)


def test_a_nonce_of_the_one_scheme_is_none_of_the_other() -> None:
    chance = Random(5)
    numbers = [chance.getrandbits(256) for _ in range(50)]
    assert {f"0x{number:064x}" for number in numbers}.isdisjoint(map(str, numbers))


def test_the_client_cannot_pay_without_a_facilitator() -> None:
    required = build_requirements(TERMS, challenge=CHALLENGE)
    del required["extra"]["facilitatorAddress"]
    with pytest.raises(ValueError, match="facilitatorAddress"):
        UptoEvmScheme(Account.from_key(KEY)).create_payment_payload(
            PaymentRequirements.model_validate(required)
        )
