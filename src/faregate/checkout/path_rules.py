"""Match paths against sold and refused prefixes. Pure.

A prefix is the coarser tool, for apps whose handlers cannot be touched. It is read more widely than
any router reads it: a path that one of them could take for a paid one is paid.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import punctuation
from typing import Any, cast
from urllib.parse import unquote, unquote_plus

from faregate.checkout.argument_checks import check_choose
from faregate.core.models import Offer
from faregate.errors import ConfigurationError
from faregate.offers import build_offer
from faregate.x402.usage_prices import Usage

# A path that is its own normal form, but for a slash at its end. Most paths are.
_NORMAL = re.compile(r"(?:/[a-z0-9_-][a-z0-9_.-]*)+/?", re.ASCII)

# Decoders replace bytes that are not UTF-8 by these. Bottle drops them: `/%FFreports` becomes `/reports`.
# What is written in C ends a path at a zero byte.
_NOT_TEXT = re.compile("[\0\ufffd\ud800-\udfff]")

# Cheroot leaves an encoded slash as it is, for the application to decode.
_SLASHES = re.compile(r"(?:[/\\]|%2f)+", re.IGNORECASE)

# What may follow a path as the format of its answer.
_FORMAT = re.compile(r"\.[\w.-]*(?:/|$)")

# `urlsplit` drops these wherever they are, and with it `request.url.path` of Starlette.
_DROPPED = re.compile("[\t\r\n]")
_URL_END = re.compile("[?#]")

# Two letters that `re.IGNORECASE` takes for an `i`, and `casefold` does not.
_TURKISH_I = str.maketrans("\u0130\u0131", "ii")

# Pyramid takes `@@` off the name of a view, and Morepath `+`. Plain names begin with `-`, `.`, `_` and `~`.
_VIEW_MARKS = punctuation.translate(str.maketrans("", "", "-._~/;%"))

_VIRTUAL_ROOT, _DESTINATION = "x-vhm-root", "destination"
_ROOT_HEADERS = ("x-script-name", "x-forwarded-prefix", "script-name")
PATH_HEADERS = frozenset((_VIRTUAL_ROOT, _DESTINATION, *_ROOT_HEADERS))
"""Headers, in lower case, that change what a path means. Any client can send them.

Pyramid puts X-Vhm-Root in front of the path that it traverses. WebDAV copies or moves what is below the
path to the Destination. The others are the root path for Radicale, ProxyFix, Gunicorn, and much middleware.
"""
PathHeaders = Sequence[tuple[str, str]]
MAX_UNUSUAL_PATH = 8192
"""Characters of a path, with its root, that is not its own normal form: to list its readings takes long."""
MAX_ROOT_SLASHES = 32
"""Slashes of a root path. Each is a place where a router may begin to read the path."""
_MAX_REMOVALS = 3
"""How often the root path of a header is taken off.

Middleware takes it off and makes it the root path of the scope, and then Starlette takes it off once more.
The third is for such middleware that is there twice.
"""
_PLAIN_ROOT = re.compile(r"[a-z0-9/_.~-]*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PathMatch:
    """The decision of the rules for one path.

    `prefix` is the paid prefix that has the offer. `refused`: the path is below a refused prefix, and is
    served only for `offer`, or for that of its handler. `ambiguous`: routers may read the path in two ways,
    so nothing is served. `is_path` is False for a request target that is not a path, if there are no rules:
    nothing is sold for it. With rules, such a target is `ambiguous`.
    """

    offer: Offer | None = None
    refused: bool = False
    ambiguous: bool = False
    is_path: bool = True
    prefix: str | None = None
    protected: bool = field(init=False, default=False)
    """Whether it is sold, refused or ambiguous."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protected", self.refused or self.ambiguous or self.offer is not None)


NO_RULES = PathMatch()
AMBIGUOUS = PathMatch(ambiguous=True)
_NO_PATH = PathMatch(is_path=False)


class PathRules:
    """The paid and the refused prefixes of one application. Raises `ConfigurationError`."""

    def __init__(self, offers: Mapping[str, str | Offer] | None = None, refuse: Sequence[str] = ()) -> None:
        given: Any = offers or {}
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"offers maps path prefixes to what is sold, as in {{'/reports': 'daily_report'}}: {given!r} "
                "does not."
            )
        closed: Any = refuse
        if isinstance(closed, str):
            raise ConfigurationError(f"refuse is a list of path prefixes: write [{refuse!r}].")
        if not isinstance(closed, Iterable):
            raise ConfigurationError(
                f"refuse is a list of path prefixes, such as ['/drafts'], not {refuse!r}."
            )
        declared = dict(cast(Mapping[str, str | Offer], given))
        self.offers = {
            _normalize_prefix(path): sold if isinstance(sold, Offer) else build_offer(sold)
            for path, sold in declared.items()
        }
        for path, sold in self.offers.items():
            check_choose(sold)
            _check_price(path, sold)
        if len(self.offers) < len(declared):
            raise ConfigurationError(
                "Two paid prefixes are the same path, spelt differently. Keep one of them."
            )
        refuse = tuple(refuse)
        self.refused = tuple(_normalize_prefix(path) for path in refuse)
        if both := sorted(self.offers.keys() & set(self.refused)):
            raise ConfigurationError(f"{both[0]!r} is both sold and refused. Keep one of them.")
        self.is_empty = not self.offers and not self.refused
        self._spellings = {_normalize_prefix(path): path.rstrip("/") for path in (*declared, *refuse)}
        self.own_roots: tuple[str, ...] = ()
        """The root paths that applications behind the rules take off by themselves, beside the server's."""
        self.clients_set_root = False
        """Whether any client can set the root path, as below Daphne."""
        self._matches: dict[tuple[str | None, bool], PathMatch] = {}

    def match(self, path: str, root: str = "", headers: PathHeaders = ()) -> PathMatch:
        """Match a decoded path; `root` is where the application is mounted.

        `headers` are those of the request whose names, in lower case, are in `PATH_HEADERS`.
        """
        if self.is_empty:
            return NO_RULES if _is_path(path, root) else _NO_PATH
        if not (root or headers) and _NORMAL.fullmatch(path):
            return self._match_readings(
                (path.rstrip("/"), *_list_readings(self.list_other_paths(path, root)))
            )
        if _is_unreadable(path, root, headers):
            return AMBIGUOUS
        paths = (*list_paths(path, root), *self.list_other_paths(path, root))
        readings = _list_readings(paths)
        match = self._match_readings(readings)
        if self._is_folded_to_another_offer(paths, readings, match):
            return AMBIGUOUS
        rare_readings = self._list_rare_readings(path, root, dict(headers), readings)
        for rare in (self._match_readings((text,)) for text in rare_readings):
            if rare.protected:
                # A client that may choose between two prices chooses the cheaper one.
                if match.protected and not _is_alike(rare, match):
                    return AMBIGUOUS
                match = rare
        if any(name == _DESTINATION for name, _ in headers) and (
            match.protected or self._has_prefix_below((*readings, *rare_readings))
        ):
            return AMBIGUOUS
        return match

    def _list_rare_readings(
        self, path: str, root: str, headers: Mapping[str, str], readings: tuple[str, ...]
    ) -> tuple[str, ...]:
        """List what only some routers read a path as."""
        rests = [text for text in _list_rests((_normalize(path),), path, root) if text not in readings]
        behind_headers: list[str] = []
        for name in _ROOT_HEADERS:
            behind_headers += _list_rests(readings, path, headers.get(name, ""), _MAX_REMOVALS)
        # What takes a header off leaves the rest to a router, which takes its own root path off.
        for other in (root, *self.own_roots):
            rests += _list_rests(behind_headers, "", other)
        rests += behind_headers
        if root and self.clients_set_root:
            rests += (_normalize(path), _normalize(path.removeprefix(root)))
        return tuple(rests)

    def _is_folded_to_another_offer(
        self, paths: Iterable[str], readings: tuple[str, ...], match: PathMatch
    ) -> bool:
        """Whether the path is below this offer only if it is folded, and otherwise may belong to another one.

        Folding makes a path paid. It does not choose between two offers: `/ask/sample;a` may be a text below
        `/ask`.
        """
        plain = self._match_plainly(paths)
        return not _is_alike(plain, match) and (plain.protected or self._has_two_offers(readings))

    def _has_two_offers(self, readings: tuple[str, ...]) -> bool:
        """Whether readings are below prefixes of two offers, or of an offer and a refused prefix."""
        refused = any(_is_below(path, closed) for path in readings for closed in self.refused)
        offers = [
            sold for prefix, sold in self.offers.items() if any(_is_below(path, prefix) for path in readings)
        ]
        return any(offer != offers[0] for offer in offers) or (refused and bool(offers))

    def _has_prefix_below(self, paths: tuple[str, ...]) -> bool:
        return any(_is_below(prefix, path) for path in paths for prefix in (*self.offers, *self.refused))

    def list_other_paths(self, path: str, root: str) -> tuple[str, ...]:
        """List what else the framework may take this path for, such as the path without its own root."""
        return tuple(other for own in self.own_roots for other in list_paths(path, own))

    def _match_plainly(self, paths: Iterable[str]) -> PathMatch:
        """Match paths as they are spelled with prefixes as they are declared."""
        spelled = tuple(path.rstrip("/") for path in paths)
        return self._get_match(*self._find_prefix(spelled, self._is_plainly_below))

    def _is_plainly_below(self, path: str, prefix: str) -> bool:
        declared = self._spellings[prefix]
        rest = path.removeprefix(declared)
        return path.startswith(declared) and (rest[:1] in ("", "/") or _FORMAT.match(rest) is not None)

    def _match_readings(self, paths: tuple[str, ...]) -> PathMatch:
        return self._get_match(*self._find_prefix(paths, _is_below))

    def _find_prefix(
        self, paths: tuple[str, ...], is_below: Callable[[str, str], bool]
    ) -> tuple[str | None, bool]:
        """Find the paid prefix that the paths are below, and whether they are below a refused one."""
        prefix = _find_longest(paths, self.offers, is_below)
        refused = [closed for closed in self.refused if any(is_below(path, closed) for path in paths)]
        # A part of what is sold may be refused, and a part of what is refused be sold: the inner one holds.
        if prefix is not None and any(_is_below(closed, prefix) for closed in refused):
            prefix = None
        return prefix, bool(refused)

    def _get_match(self, prefix: str | None, refused: bool) -> PathMatch:
        match = self._matches.get((prefix, refused))
        if match is None:
            offer = None if prefix is None else self.offers[prefix]
            match = self._matches[prefix, refused] = PathMatch(offer, refused, prefix=prefix)
        return match


def _is_unreadable(path: str, root: str, headers: PathHeaders) -> bool:
    """Whether it is not certain what routers read: the path is too long or ambiguous, or a header changes it.

    A header of the root path may come once, as a plain path.
    """
    if len(path) + len(root) > MAX_UNUSUAL_PATH or root.count("/") > MAX_ROOT_SLASHES:
        return True
    if any(map(_is_ambiguous, _list_decodings(path))) or not _is_path(path, root):
        return True
    named = dict(headers)
    is_twice = len(named) < len(headers)
    roots = (named.get(name, "") for name in _ROOT_HEADERS)
    return is_twice or _VIRTUAL_ROOT in named or not all(map(_PLAIN_ROOT.fullmatch, roots))


def _is_alike(match: PathMatch, other: PathMatch) -> bool:
    return (match.offer, match.refused) == (other.offer, other.refused)


def _check_price(path: str, sold: Offer) -> None:
    if any(isinstance(alternative.price, Usage) for alternative in sold.alternatives):
        raise ConfigurationError(
            f"{path!r} is sold as {sold.sells!r} by its path, and the price of that follows the use: nothing "
            "below a prefix is sure to report it. Put the price on the handler that reports what it used."
        )


def _normalize_prefix(path: Any) -> str:
    if not isinstance(path, str):
        raise ConfigurationError(f"A path prefix is a text such as '/reports', not {path!r}.")
    if not path.startswith("/"):
        raise ConfigurationError(f"A path prefix starts with a slash: {path!r} does not.")
    if _is_ambiguous(path) or any(char in path for char in "*{}<>?#%"):
        raise ConfigurationError(
            f"A path prefix is a plain, decoded path, not a pattern: {path!r} would match nothing."
        )
    return _normalize(path)


def list_paths(path: str, root: str) -> tuple[str, ...]:
    """List the path as routers may read it: whole, with the root path, and without it or its first parts.

    A path that begins with the characters of the root need not have it: `/apis` is not below `/api`.
    """
    if not root:
        return (path,)
    wholes = (path, root + path) if path.startswith(root) else (root + path,)
    # A prefix may have the mount path, and no root path that a server puts in front of it.
    ends = [place for place, char in enumerate(f"{root}/") if char == "/" and place]
    return tuple(dict.fromkeys((path, root + path, *(whole[end:] for whole in wholes for end in ends))))


def _list_readings(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(_normalize(decoded) for path in paths for decoded in _list_decodings(path))


def _list_rests(readings: Iterable[str], path: str, root: str, most: int = 1) -> list[str]:
    """List what follows a root path, wherever it is in a path or in one of its readings.

    It is looked for at most `most` times.
    Litestar splits the path there.
    """
    taken_off = root.rstrip("/")
    if not taken_off:
        return []
    pairs = ((path, root), (path, taken_off), *((reading, _normalize(root)) for reading in readings))
    split = ((part, whole.split(part, most)) for whole, part in pairs)
    rests = (part.join(parts[end:]) for part, parts in split for end in range(1, len(parts)))
    return list(_list_readings(dict.fromkeys(rests)))


def _list_decodings(path: str) -> tuple[str, ...]:
    """List a path, and what it becomes where an application decodes it again, or makes a URL of it."""
    if not any(char in path for char in "%~?#\t\r\n"):
        return (path,)
    # Bytes that are no text are left out: a path may well have a percent sign of its own.
    decodings = (path, unquote(path, errors="ignore"))
    # Datasette reads `~72` as others read `%72`.
    tilded = (unquote_plus(text.replace("~", "%"), errors="ignore") for text in decodings if "~" in text)
    in_urls = (_URL_END.split(_DROPPED.sub("", decoded))[0] for decoded in (*decodings, *tilded))
    return tuple(dict.fromkeys((path, *in_urls)))


def _is_path(path: str, root: str) -> bool:
    """Whether every router looks for this path. Inside `http://x/reports` and `x:/reports` some look for one.

    Servers pass such request targets on, and some put the root path in front. An empty path is `/`, and
    `*` is the target of an OPTIONS for the whole server.
    """
    if path in ("", "*"):
        return True
    below = path[len(root) :] if root and path.startswith(root) else "/"
    return path.startswith("/") and (below[:1] in ("", "/") or ":" not in below.partition("/")[0])


def _is_ambiguous(path: str) -> bool:
    """Whether a path has a dot-dot or bytes that are no text: routers, file systems and proxies disagree."""
    if _NOT_TEXT.search(path):
        return True
    return ".." in path and any(re.split(r"[;\s]+", part.strip())[0] == ".." for part in _SLASHES.split(path))


def _normalize(path: str) -> str:
    """Fold what any router folds: case, doubled and back slashes, dots, spaces, `;` with parameters, `@@`."""
    parts: list[str] = []
    for part in _SLASHES.split(path.translate(_TURKISH_I).casefold()):
        part = part.strip().partition(";")[0]
        part = part.lstrip(_VIEW_MARKS) or part
        if part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def list_spellings(path: str) -> tuple[str, ...]:
    """List the plain spellings of a path that something in front of a router may have read it as."""
    normal = _normalize(path)
    return tuple(spelling for spelling in (normal, f"{normal}/") if spelling != path)


def _is_below(path: str, prefix: str) -> bool:
    # Routers answer `/reports.json` with the handler of `/reports`, too: a format follows the path.
    return f"{path}/".startswith(f"{prefix.rstrip('/')}/") or path.startswith(f"{prefix}.")


def _find_longest(
    paths: tuple[str, ...],
    prefixes: Iterable[str],
    is_below: Callable[[str, str], bool],
) -> str | None:
    """Find the longest prefix that one of the paths is below."""
    longest: str | None = None
    for prefix in prefixes:
        if longest is None or len(prefix) > len(longest):
            for path in paths:
                if is_below(path, prefix):
                    longest = prefix
    return longest
