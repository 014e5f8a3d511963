"""A reply that has a name twice is not understood: some readers take the first value, some the last."""

import pytest

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.interpret import parse_object


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"failed","status":"succeeded"}',
        b'{"receipt":{"id":"a","id":"b"}}',
        b'{"receipt":{"id":"a"},"receipt":{"id":"a"}}',
        b'{"receipt":null,"receipt":null}',
        # What stands for the receipt while the rest is compared is elsewhere, too.
        b'{"other":{"receipt":null},"receipt":{"id":"a","id":"a"}}',
        b'{"other":{"receipt":null,"receipt":null},"receipt":{"id":"a"}}',
    ],
)
def test_a_name_that_stands_twice_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswer, match="one name has two values"):
        parse_object(Response(200, (), body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"other":{"receipt":null},"receipt":{"id":"a"}}',
        b'{"my\\"receipt":null,"receipt":{"id":"a"}}',
        b'{ "receipt": {"id": "a"} }',
    ],
)
def test_any_spelling_of_unique_names_is_read(body: bytes) -> None:
    assert parse_object(Response(200, (), body))["receipt"] == {"id": "a"}
