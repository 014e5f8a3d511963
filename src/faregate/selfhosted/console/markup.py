"""HTML that is escaped unless it was built here."""

from html import escape


class Markup(str):
    """Text that is HTML already. Any other text is escaped before it is shown."""

    __slots__ = ()


Child = str | int | None
"""What an element may hold; None is nothing."""


def build(name: str, /, *children: Child, **attributes: str | bool | None) -> Markup:
    """Build an element. `class_` is the attribute `class`. True is an attribute without a value."""
    opening = "".join([f"<{name}", *(_build_attribute(*one) for one in attributes.items()), ">"])
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Escape what is not HTML, and put all after another."""
    return Markup("".join(_escape(child) for child in children if child is not None))


_VOID = frozenset({"input", "link", "meta", "img", "br"})


def _build_attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{escape(value)}"'


def _escape(child: str | int) -> str:
    return child if isinstance(child, Markup) else escape(str(child))
