"""The exceptions of faregate, and the end of a message about a mistyped name.

`FaregateError` is the root. Below it: `ConfigurationError` (the seller's to mend, says how), `ServiceError`
(the merchant service said no, said nothing, or said nonsense), `JournalError` (the seller's memory
failed) and `InvalidUsage` (reported values break the revision's rules). `CommandError`
is for the commands.
"""

import difflib
import re
from collections.abc import Iterable


class FaregateError(Exception):
    """The base class of every error of faregate."""


class ConfigurationError(FaregateError):
    """A mistake in the seller's setup; the message says what to do."""


class InvalidUsage(FaregateError):
    """Reported values that the revision does not allow, or required ones that are missing."""


class HandlerError(FaregateError):
    """The protected work gave no result that may be sold; `code` is reported as the failure code."""

    code = "work_failed"


class ResultTooLarge(HandlerError):
    """The response outgrew `max_result_bytes`."""

    code = "result_too_large"


class ResultCutShort(HandlerError):
    """The response lost a part of its body: it is shorter than its `Content-Length`, or was started again."""

    code = "result_cut_short"


class WorkTimedOut(HandlerError):
    """The work outlived the time in which its payment can still be taken."""

    code = "work_timed_out"


class NotBillable(HandlerError):
    """The handler answered with a status that is neither billable nor an error: see `core.billing`."""

    code = "not_billable"


class WorkInterrupted(HandlerError):
    """The handler was ended from inside: it raised `SystemExit`, or cancelled itself."""

    code = "interrupted"


class SoldTwice(HandlerError):
    """One request reached two offers: which of them its payer agreed to is unknown."""

    code = "two_offers"


class JournalError(FaregateError):
    """The journal could not write or read; nothing may be assumed written."""


class JournalFull(JournalError):
    """The journal refuses new rows rather than forget old ones."""


class JournalUnreadable(JournalError):
    """A stored row cannot be read: damaged, encrypted with another key, of a newer version, or not ours."""


class ServiceError(FaregateError):
    """A call to the merchant service failed."""


class NoAnswer(ServiceError):
    """No reply: refused, reset, timed out. Whether the service acted is unknown."""


class TooManyCalls(NoAnswer):
    """The call was not sent: too many others are under way. Asking again at once makes it worse."""


class BadAnswer(ServiceError):
    """A reply that is not the contract's: wrong JSON, wrong shape, too large."""


class PaymentPending(ServiceError):
    """HTTP 202 of access: the payment is still settling or reconciling."""

    def __init__(self, transaction_id: str | None, retry_after: str | None = None) -> None:
        super().__init__(f"payment is still being checked (transaction {transaction_id})")
        self.transaction_id = transaction_id
        self.retry_after = retry_after


class ApiError(ServiceError):
    """An error of the contract: HTTP `status`, stable `code`, human `message` (spec: Errors)."""

    def __init__(self, status: int, code: str, message: str, retry_after: str | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after


class PaymentRequired(ApiError):
    """402 of access. `instructions` is the `PAYMENT-REQUIRED` header, unchanged."""

    instructions: str | None = None


class Unauthenticated(ApiError):
    """401: the API key is missing or wrong."""


class Forbidden(ApiError):
    """403: the key is right but may not do this."""


class NotFound(ApiError):
    """404."""


class TransactionNotFound(NotFound):
    """404 `transaction_not_found`."""


class ResourceExecutionNotFound(NotFound):
    """404 `resource_execution_not_found`."""


class Conflict(ApiError):
    """409."""


class ResourceExecutionConflict(Conflict):
    """409 `resource_execution_conflict`: other metadata was already accepted."""


class RevisionMismatch(Conflict):
    """409 `revision_mismatch`: the completion names another revision than the access."""


class InvalidRequest(ApiError):
    """400, 409 or 422 `invalid_request`."""


class InternalError(ApiError):
    """5xx: the service failed; what it did is unknown."""


_BY_CODE: dict[str, type[ApiError]] = {
    "payment_required": PaymentRequired,
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "transaction_not_found": TransactionNotFound,
    "resource_execution_not_found": ResourceExecutionNotFound,
    "resource_execution_conflict": ResourceExecutionConflict,
    "revision_mismatch": RevisionMismatch,
    "invalid_request": InvalidRequest,
    "internal_error": InternalError,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    402: PaymentRequired,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: InvalidRequest,
}


def api_error(status: int, code: str, message: str, retry_after: str | None = None) -> ApiError:
    """The class for this code, else for this status, else `InternalError` (5xx) or `ApiError`."""
    fallback = InternalError if status >= 500 else ApiError
    # The code decides before the status: `invalid_request` comes with several of them.
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, fallback)
    return kind(status, code, message, retry_after)


def is_unavailable(error: ServiceError) -> bool:
    """Whether the service did not answer, or said that it is not available now (503)."""
    return isinstance(error, NoAnswer) or (isinstance(error, InternalError) and error.status == 503)


class CommandError(Exception):
    """The command was called in a way that cannot work. The message says what to change; the status is 2."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Ask after the known name that is nearest, to end a message with; return "" if none is near.

    Among near names, one that has all words of `name` comes first: FAREGATE_BASE_URL for FAREGATE_URL.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.75)
    with_all_words = [candidate for candidate in near if _split_words(name) <= _split_words(candidate)]
    return f" Did you mean {(with_all_words or near)[0]}?" if near else ""


def _split_words(name: str) -> set[str]:
    return set(re.split("[_-]", name))
