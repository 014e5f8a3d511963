"""Map Redis errors to messages for sellers. No password is part of them."""

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)

from faregate.errors import JournalError, JournalUnreadable

VERSION = 2

_MEANINGS = {
    "NOPERM": "its user may not do what a journal needs: allow @read, @write, @scripting, time and "
    "~faregate:*, and select for another database than 0",
    "READONLY": "this server is a replica, which takes no writes: name the primary",
    "OOM": "its memory is full: give it more (maxmemory)",
    "MISCONF": "it refuses writes since it cannot write to its disk",
    "NOREPLICAS": "fewer replicas follow it than its min-replicas-to-write demands",
    "MASTERDOWN": "this server is a replica without its primary",
    "BUSY": "it is held up by somebody's script",
}
_CODES = {
    "MasterDownError": "MASTERDOWN",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
}


def is_lost(error: RedisError) -> bool:
    """Whether the server may have done what it gave no answer to."""
    refused = isinstance(error, AuthenticationError | BusyLoadingError)
    return isinstance(error, ConnectionError | TimeoutError) and not refused


def is_another(error: RedisError) -> bool:
    """Whether another server may have the name by now that this one had. Nothing was done."""
    return isinstance(error, ReadOnlyError | MasterDownError)


def to_journal_error(error: RedisError, place: str) -> JournalError:
    return JournalError(f"the journal at {place} could not be read or written: {_meaning(error)}")


def _meaning(error: RedisError) -> str:
    match error:
        case AuthenticationError():
            return f"the user or the password in its URL is wrong, or missing ({error})"
        case BusyLoadingError():
            return "the server is still loading its data"
        case TimeoutError():
            return "the server did not answer in time"
        case _:
            said = f"{_code(error)} {error}"
            found = (meaning for code, meaning in _MEANINGS.items() if code in said)
            return next((f"{meaning} ({error})" for meaning in found), str(error))


def _code(error: RedisError) -> str:
    """The library takes it off what the server said."""
    return _CODES.get(type(error).__name__, "")


def impossible(rule: str) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {rule}")


def elsewhere(mark: str, place: str) -> JournalUnreadable:
    """The data there are not those that this process began with."""
    version = mark.partition(" ")[0]
    if version and version != str(VERSION):
        return JournalUnreadable(
            f"the journal at {place} is of version {version}, and this faregate knows {VERSION}: "
            "use the newer faregate that wrote it"
        )
    return JournalUnreadable(
        f"the journal at {place} was emptied or replaced while it was in use: bring its data back, or "
        "restart to begin anew; payments that were open then are finished by nobody"
    )
