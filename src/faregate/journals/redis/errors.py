"""Map Redis errors to `JournalError`s that tell the seller what to do. They contain no password."""

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)

from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.redis.schema import VERSION
from faregate.journals.store import PurchaseTaken, TransactionTaken

_ADVICE = {
    "NOPERM": "its user may not do what a journal needs: allow @read, @write, @scripting, time and "
    "~faregate:*, and select for another database than 0",
    "READONLY": "this server is a replica, which takes no writes: name the primary",
    "OOM": "its memory is full: give it more (maxmemory)",
    "MISCONF": "it refuses writes since it cannot write to its disk",
    "NOREPLICAS": "fewer replicas follow it than its min-replicas-to-write demands",
    "MASTERDOWN": "this server is a replica without its primary",
    "BUSY": "another client's script holds it up",
}
_CODES = {
    "MasterDownError": "MASTERDOWN",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
}


def needs_connection(reply: object) -> bool:
    """Whether to send a command again on a new connection.

    There is no reply, so that it may have been done or not; or it was not done: this server is a replica now,
    and another one may have its name, or the script is unknown, which a new connection brings along.
    """
    refused = isinstance(reply, AuthenticationError | BusyLoadingError)
    is_lost = isinstance(reply, ConnectionError | TimeoutError) and not refused
    return is_lost or isinstance(reply, ReadOnlyError | MasterDownError | NoScriptError)


def to_row_error(error: RedisError, location: str) -> Exception:
    """Describe an error of the script, or else of the server."""
    code, _, text = str(error).partition(" ")
    match code:
        case "TAKEN":
            return TransactionTaken()
        case "PURCHASED":
            return PurchaseTaken()
        case "IMPOSSIBLE":
            return JournalError(f"the journal refused an impossible row: {text}")
        case "WRONGJOURNAL":
            return wrong_journal(text, location)
        case _:
            return to_journal_error(error, location)


def did_not_answer(location: str) -> JournalError:
    return to_journal_error(TimeoutError(), location)


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
            # The library removes the code of the server's reply from the message.
            text = f"{_CODES.get(type(error).__name__, '')} {error}"
            matching = (advice for code, advice in _ADVICE.items() if code in text)
            return next((f"{advice} ({error})" for advice in matching), str(error))


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
        "restart to start anew; payments that were open are never finished"
    )
