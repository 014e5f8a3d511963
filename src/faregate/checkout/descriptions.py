"""Describe an offer by its handler: the docstring and the route fill in what the seller left out.

A description is for payers, and is not compared: a payment stays valid when a docstring changes.
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
"""The sources of the description of a handler (texts, functions and classes, the best first), and the media
type of its responses, if its route has one."""
FindHandler = Callable[[], HandlerInfo | None]

_MAX_ENCODED = 1000
"""The limit of a description, in bytes of JSON in ASCII, as some services write it. `PAYMENT-REQUIRED` has
the JSON in base64, and nginx reads all headers of a response into 4096 bytes."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")

_FRAMEWORKS = frozenset(
    ("builtins", "django", "fastapi", "flask", "functools", "ninja", "rest_framework", "starlette")
)
"""The docstrings of their own handlers say how a handler works, and not what is sold."""


def describe_by_handler(offer: Offer, find_handler: FindHandler | None) -> Offer:
    """Describe an offer by its handler, where the seller did not. An error of a framework stops no sale."""
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
    """Fill in what an offer leaves out: the description of the first source that has one, and a media type.

    Values that the service would refuse are left out.
    """
    if offer.description is None:
        descriptions = (text for source in sources if (text := _read_first_paragraph(source)))
        offer = replace(offer, description=next(descriptions, None))
    if offer.mime_type is None and media_type is not None:
        mime_type = media_type.partition(";")[0].strip().lower()
        offer = replace(offer, mime_type=None if find_mime_type_fault(mime_type) else mime_type)
    return offer


def _read_first_paragraph(source: object) -> str:
    """Read the first paragraph of a source as one line. Text after a form feed is private, as in FastAPI."""
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
    """Cut a long text at the end of a word, if it has several."""
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
