"""What a stranger says, before a payer or a log sees it."""

import pytest

from faregate.service.chain.safe_text import MAX_CHARACTERS, clean_text

SIGNATURE = "0x" + "5c" * 65


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("insufficient_funds", "insufficient_funds"),
        (
            "invalid_exact_evm_payload_authorization_valid_before",
            "invalid_exact_evm_payload_authorization_valid_before",
        ),
        ("Insufficient funds: has 5, needs 10.", "Insufficient funds: has 5, needs 10."),
        ("line\r\nbreak\x00\x1b[31m<b>\u202e", "line break 31m b"),
        (f"bad signature {SIGNATURE} of payer", "bad signature ... of payer"),
        ("Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.abc", "Bearer ..."),
        ("/".join(["abc"] * 40), "..."),
        ("", ""),
        (None, ""),
        (7, ""),
        ({"error": "x"}, ""),
    ],
)
def test_a_text_becomes_one_line_without_secrets(text: object, line: str) -> None:
    assert clean_text(text) == line


def test_a_long_text_is_cut() -> None:
    line = clean_text("much ado " * 100_000)
    assert len(line) == MAX_CHARACTERS
    assert line.endswith("...")
