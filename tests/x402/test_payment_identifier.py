"""The extension `payment-identifier`, held against the official package."""

from typing import Any

import pytest
from x402.extensions.payment_identifier import (
    PAYMENT_IDENTIFIER,
    append_payment_identifier_to_extensions,
    declare_payment_identifier_extension,
    extract_and_validate_payment_identifier,
    is_payment_identifier_required,
    payment_identifier_schema,
    validate_payment_identifier,
)
from x402.http.utils import decode_payment_signature_header
from x402.schemas import PaymentPayload

from faregate.emulator import Wallet
from faregate.x402.discovery import MAX_AMENDED, Described, amend
from faregate.x402.payment_identifier import (
    EXTENSION,
    IdentifierUse,
    InvalidIdentifier,
    declare_identifier,
    find_identifier,
)
from tests.support.encodings import encode_payment
from tests.support.headers import decode_header, encode_header
from tests.support.identifiers import with_extension, with_identifier
from tests.x402.test_discovery import build_instructions

OPTIONAL = declare_identifier(IdentifierUse.OPTIONAL)
VALID = ["a" * 16, "Z9_-" * 32, "pay_7d5d747be160e280504c099d984bcfe0", "-" * 128]
INVALID: list[Any] = [
    "a" * 15,
    "a" * 129,
    "",
    "spaces are not allowed",
    "a" * 16 + "\n",
    "\u0661" * 16,
    "\u212a" * 16,
    "a" * 15 + ".",
    "a" * 15 + "\0",
    1234567890123456,
    True,
    ["a" * 16],
    {"a": "a" * 16},
]


@pytest.mark.parametrize("use", [IdentifierUse.OPTIONAL, IdentifierUse.REQUIRED])
def test_the_declaration_is_that_of_the_official_package(use: IdentifierUse) -> None:
    required = use is IdentifierUse.REQUIRED
    assert EXTENSION == PAYMENT_IDENTIFIER
    [extension] = declare_identifier(use).values()
    assert extension == declare_payment_identifier_extension(required)
    assert extension["schema"] == payment_identifier_schema
    assert is_payment_identifier_required(extension) is required
    assert validate_payment_identifier(extension).valid


def test_a_seller_that_ignores_identifiers_declares_nothing() -> None:
    assert declare_identifier(IdentifierUse.IGNORED) == {}
    assert amend(build_instructions(), None) == build_instructions()


def test_only_extensions_are_added_to_the_instructions() -> None:
    amended = amend(build_instructions(), None, OPTIONAL)
    assert decode_header(amended) == {**decode_header(build_instructions()), "extensions": OPTIONAL}


def test_catalogues_are_told_beside_it() -> None:
    described = Described("GET", "/report?city=Oslo", "https://seller.example/report")
    amended = decode_header(amend(build_instructions(), described, OPTIONAL))
    assert set(amended["extensions"]) == {"bazaar", EXTENSION}
    assert decode_header(amend(build_instructions(), described))["extensions"].keys() == {"bazaar"}


def test_it_matters_more_than_what_catalogues_read() -> None:
    instructions = build_instructions("\u201c" * 500)
    described = Described("GET", "/report?city=Oslo", "https://seller.example/report")
    amended = amend(instructions, described, OPTIONAL)
    assert decode_header(amended)["extensions"] == OPTIONAL
    assert len(amended) <= MAX_AMENDED


def test_instructions_with_extensions_stay_as_they_are() -> None:
    instructions = encode_header({**decode_header(build_instructions()), "extensions": {}})
    assert amend(instructions, None, OPTIONAL) == instructions


@pytest.mark.parametrize("identifier", VALID)
def test_what_the_official_client_appends_is_read(identifier: str) -> None:
    echoed = append_payment_identifier_to_extensions(dict(OPTIONAL), identifier)
    assert find_identifier(with_extension(encode_payment(), echoed[EXTENSION])) == identifier


@pytest.mark.parametrize("identifier", [*VALID, *INVALID], ids=repr)
def test_it_is_valid_where_it_is_to_the_official_server(identifier: Any) -> None:
    proof = with_identifier(Wallet().pay(build_instructions()), identifier)
    payload = decode_payment_signature_header(proof)
    assert isinstance(payload, PaymentPayload)
    found, official = extract_and_validate_payment_identifier(payload)
    # `$` of the official pattern lets a line break through.
    if official.valid and not str(identifier).endswith("\n"):
        assert find_identifier(proof) == found
    else:
        with pytest.raises(InvalidIdentifier):
            find_identifier(proof)


@pytest.mark.parametrize("extension", [None, {}, [], "", 0, {"info": {}}, OPTIONAL[EXTENSION]], ids=repr)
def test_an_echo_without_an_identifier_has_none(extension: Any) -> None:
    assert find_identifier(with_extension(encode_payment(), extension)) == ""
    assert find_identifier(with_identifier(encode_payment(), None)) == ""


@pytest.mark.parametrize("extension", ["text", ["a" * 16], 1, {"id": "a" * 16}, {"info": "a" * 16}], ids=repr)
def test_another_form_is_refused(extension: Any) -> None:
    with pytest.raises(InvalidIdentifier):
        find_identifier(with_extension(encode_payment(), extension))


@pytest.mark.parametrize("proof", ["", "no base64!", encode_payment(), encode_header([1])])
def test_a_proof_without_the_extension_has_none(proof: str) -> None:
    assert find_identifier(proof) == ""
