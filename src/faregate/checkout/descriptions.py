"""Describe an offer by the handler that is sold: what its seller did not say, its docstring and route say.

A description is for payers. It is no part of what is compared: a payment stays good when a docstring changes.
"""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from inspect import cleandoc, isclass, isroutine
from itertools import accumulate
from typing import Any

from faregate.core.models import Offer
from faregate.logs import log
from faregate.merchant.backend import find_description_fault, find_mime_type_fault
from faregate.merchant.formats import MAX_DESCRIPTION

HandlerInfo = tuple[tuple[object, ...], str | None]
"""Where the description of a handler is looked for: texts, functions and classes, the best first. And the
media type of its responses, as far as its route says it."""
FindHandler = Callable[[], HandlerInfo | None]

_MAX_ENCODED = 1000
"""Bytes as JSON in ASCII, in which some services write it: `PAYMENT-REQUIRED` encodes this in base64, and all
headers of a response have to fit into the 4096 bytes that nginx reads them into."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")

_FRAMEWORKS = frozenset(
    ("builtins", "django", "fastapi", "flask", "functools", "ninja", "rest_framework", "starlette")
)
"""Their own handlers say how they work, and not what is sold."""


def describe_by_handler(offer: Offer, find_handler: FindHandler | None) -> Offer:
    """Describe an offer by its handler, where the seller did not. No framework's fault stops a sale."""
    if find_handler is None or (offer.description is not None and offer.mime_type is not None):
        return offer
    try:
        info = find_handler()
        return offer if info is None else describe_offer(offer, *info)
    except Exception as error:
        log("sale", logging.WARNING, "the handler cannot be described to payers", error=error)
        return offer


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
    text = _shorten(" ".join(_CONTROL.sub(" ", published.partition("\n\n")[0]).split()))
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
    end = _count_fitting(text)
    if end == len(text):
        return text
    at_word = text.rfind(" ", 0, end)
    return f"{text[: at_word if at_word > 0 else end - 1]}…"


def _count_fitting(text: str) -> int:
    """Count the first characters of a text that may be sent in a header."""
    # Subtract the quotes. A character beyond ASCII takes six or twelve bytes.
    sizes = accumulate(len(json.dumps(char)) - 2 for char in text[:MAX_DESCRIPTION])
    return sum(size <= _MAX_ENCODED for size in sizes)
