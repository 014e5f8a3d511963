"""Describe an offer by the handler that is sold: what its seller did not say, its docstring and route say.

A description is for payers. It is no part of what is compared: a payment stays good when a docstring changes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from inspect import cleandoc, isclass, isroutine
from typing import Any

from faregate.core.models import Offer
from faregate.merchant.backend import find_description_fault, find_mime_type_fault
from faregate.merchant.formats import MAX_DESCRIPTION

HandlerInfo = tuple[tuple[object, ...], str | None]
"""Where the description of a handler is looked for: texts, functions and classes, the best first. And the
media type of its responses, as far as its route says it."""
FindHandler = Callable[[], HandlerInfo | None]

_FRAMEWORKS = frozenset(
    ("builtins", "django", "fastapi", "flask", "functools", "ninja", "rest_framework", "starlette")
)
"""Their own handlers say how they work, and not what is sold."""


@lru_cache(maxsize=1024)
def describe_offer(offer: Offer, sources: tuple[object, ...], media_type: str | None) -> Offer:
    """Fill in what an offer does not say: the description of the first source that has one, and its media
    type. What the service would not take is left out."""
    if offer.description is None:
        described = (text for source in sources if (text := _read_first_paragraph(source)))
        offer = replace(offer, description=next(described, None))
    if offer.mime_type is None and media_type is not None:
        mime_type = media_type.partition(";")[0].strip().lower()
        offer = replace(offer, mime_type=None if find_mime_type_fault(mime_type) else mime_type)
    return offer


def _read_first_paragraph(source: object) -> str:
    """Read what a source says first, on one line. What follows a form feed is private, as in FastAPI."""
    published = cleandoc(_read_text(source).partition("\f")[0])
    text = _shorten(" ".join(published.partition("\n\n")[0].split()))
    return "" if find_description_fault(text) else text


def _read_text(source: Any) -> str:
    while isinstance(source, partial):
        source = source.func
    if isclass(source) or isroutine(source):
        is_own = str(getattr(source, "__module__", "")).partition(".")[0] not in _FRAMEWORKS
        source = source.__doc__ if is_own else ""
    return source if isinstance(source, str) else ""


def _shorten(text: str) -> str:
    """Cut a long text at a word, if it has words."""
    if len(text) <= MAX_DESCRIPTION:
        return text
    end = text.rfind(" ", 0, MAX_DESCRIPTION)
    return f"{text[: end if end > 0 else MAX_DESCRIPTION - 1]}…"
