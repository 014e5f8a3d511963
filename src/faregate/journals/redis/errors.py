"""Map Redis errors to `JournalError`s that tell the seller what to do. They contain no password."""

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
from faregate.journals.redis.schema import VERSION

_ADVICE = {
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
    """Whether there is no reply, so that the command may have been done or not."""
    refused = isinstance(error, AuthenticationError | BusyLoadingError)
    return isinstance(error, ConnectionError | TimeoutError) and not refused


def is_failed_over(error: RedisError) -> bool:
    """Whether this server is a replica now, and another one may have its name. Nothing was done."""
    return isinstance(error, ReadOnlyError | MasterDownError)


def to_journal_error(error: RedisError, location: str) -> JournalError:
    return JournalError(f"the journal at {location} could not be read or written: {_describe(error)}")


def _describe(error: RedisError) -> str:
    match error:
        case AuthenticationError():
            return f"the user or the password in its URL is wrong, or missing ({error})"
        case BusyLoadingError():
            return "the server is still loading its data"
        case TimeoutError():
            return "the server did not answer in time"
        case _:
            text = f"{_get_code(error)} {error}"
            known = (advice for code, advice in _ADVICE.items() if code in text)
            return next((f"{advice} ({error})" for advice in known), str(error))


def _get_code(error: RedisError) -> str:
    """The code of the server's reply, which the library removes from the message."""
    return _CODES.get(type(error).__name__, "")


def impossible(rule: str) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {rule}")


def wrong_journal(journal_id: str, location: str) -> JournalUnreadable:
    """The data in the server are not those that this process began with."""
    version = journal_id.partition(" ")[0]
    if version and version != str(VERSION):
        return JournalUnreadable(
            f"the journal at {location} is of version {version}, and this faregate knows {VERSION}: "
            "use the newer faregate that wrote it"
        )
    return JournalUnreadable(
        f"the journal at {location} was emptied or replaced while it was in use: restore its data, or "
        "restart to start anew; nobody finishes the payments that were open"
    )
