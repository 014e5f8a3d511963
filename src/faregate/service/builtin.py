"""The world that is there when nothing is given. All prices are far below the one dollar that stock
x402 clients sign without being asked."""

from typing import Final

from faregate.service.config import Key, Seller, World
from faregate.service.goods import Resource, Revision, Settlement, Value
from faregate.service.worldkeys import READABLE

TEST_KEY: Final = "svc_test_emulator"
LIVE_KEY: Final = "svc_live_emulator"
READ_ONLY_TEST_KEY: Final = "svc_test_emulator_readonly"
_CENT: Final = 10_000
_TOKENS_IN: Final = Value(name="input-tokens", label="Input tokens", unit="token")
_TOKENS_OUT: Final = Value(name="output-tokens", label="Output tokens", unit="token")


def builtin_world() -> World:
    return World(seller=Seller(), keys=_keys(), resources=(*_plain(), *_peculiar()))


def _keys() -> tuple[Key, ...]:
    return (Key(key=TEST_KEY), Key(key=LIVE_KEY), Key(key=READ_ONLY_TEST_KEY, capabilities=READABLE))


def _plain() -> tuple[Resource, ...]:
    metered = Value(name="input_tokens", label="Input tokens", unit="token", required=True)
    return (
        Resource(
            key="text_summary",
            name="Text summary",
            description="A summary of a text; may report its tokens.",
            image_url="https://seller.example/text-summary.png",
            revisions=(Revision(amount=_CENT, values=(_TOKENS_IN, _TOKENS_OUT)),),
        ),
        Resource(
            key="token_meter",
            name="Token meter",
            description="Must report its input tokens.",
            revisions=(
                Revision(amount=_CENT // 2, values=(metered,)),
                Revision(amount=_CENT, values=(metered, Value(name="output_tokens", unit="token"))),
            ),
        ),
        Resource(key="daily_report", name="Daily report", revisions=(Revision(amount=5 * _CENT),)),
        Resource(key="euro_report", name="Euro report", revisions=(Revision(amount=_CENT, asset="EURC"),)),
    )


def _peculiar() -> tuple[Resource, ...]:
    price = (Revision(amount=_CENT),)
    return (
        Resource(key="free_notes", name="Free notes", revisions=price, require_payment=False),
        Resource(
            key="slow_settlement",
            name="Slow settlement",
            description="Settles at the second read.",
            revisions=price,
            settlement=Settlement(after_reads=2),
        ),
        Resource(
            key="failing_settlement",
            name="Failing settlement",
            description="Fails to settle at the first read.",
            revisions=price,
            settlement=Settlement(after_reads=1, via="reconciling", to="failed"),
        ),
        Resource(key="old_report", name="Old report", revisions=price, archived=True),
    )
