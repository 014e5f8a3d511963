"""The story, in the order of its chapters."""

from collections.abc import Callable
from typing import Final

from . import sales, strange_calls
from .seller import Seller

CHAPTERS: Final[tuple[Callable[[Seller], None], ...]] = (
    strange_calls.call_what_is_no_endpoint,
    strange_calls.come_without_a_good_key,
    strange_calls.read_what_is_sold,
    strange_calls.ask_for_strange_pages,
    strange_calls.ask_for_strange_moments,
    strange_calls.ask_for_access_badly,
    strange_calls.show_bad_payments,
    sales.give_away,
    sales.sell,
    sales.report_values,
    sales.settle_as_payers_and_products_do,
    sales.let_authorizations_expire,
    sales.change_what_is_sold,
    sales.call_at_once,
    sales.read_the_books,
)


def tell(seller: Seller) -> None:
    """Tell the whole story."""
    for chapter in CHAPTERS:
        chapter(seller)
        seller.clock.advance(1)
