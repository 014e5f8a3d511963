"""What the URL of a Redis server may say. The library takes more, and guesses at what it cannot read."""

from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from redis import connection

from faregate.errors import ConfigurationError

_USER = {"db", "username", "password", "client_name"}
_TLS = {
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "ssl_min_version",
    "ssl_password",
}
_OPTIONS = {"redis": _USER, "rediss": _USER | _TLS, "unix": _USER}


def parsed(url: str) -> dict[str, Any]:
    """What the library's connections are made of. Raises `ConfigurationError`."""
    try:
        _check(urlsplit(url))
        return cast(dict[str, Any], cast(Any, connection).parse_url(url))
    except ValueError:  # which may repeat a part of the password
        raise ConfigurationError(
            "The journal's Redis URL is not one: redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS "
            f"(behind a ? it may say {', '.join(sorted(_TLS))}), or unix://USER:PASSWORD@/PATH?db=NUMBER, "
            "with what is special in a password written as %XX."
        ) from None


def _check(url: SplitResult) -> None:
    """A number that is none would be 0, a host that is missing this machine."""
    if url.scheme == "unix":
        place_is_said = bool(url.path) and not url.hostname
    else:
        number = url.path.removeprefix("/")
        place_is_said = bool(url.hostname) and (not number or (number.isascii() and number.isdigit()))
    options = {name for name, _ in parse_qsl(url.query, keep_blank_values=True)}
    if not place_is_said or url.fragment or not options <= _OPTIONS.get(url.scheme, set()):
        raise ValueError


def place_of(url: str) -> str:
    """The URL without what is secret, for people. Raises `ConfigurationError`."""
    known = parsed(url)
    if "path" in known:
        return f"unix://{known['path']}?db={known.get('db', 0)}"
    host = f"[{known['host']}]" if ":" in known["host"] else known["host"]
    return f"{url.partition(':')[0]}://{host}:{known.get('port', 6379)}/{known.get('db', 0)}"
