"""Recognise what another paywall of this process answers to the same request.

A paywall further inside may be one that this one does not see: of an ASGI application behind a bridge in a
WSGI one, or of Django behind middleware of Starlette. What it releases is paid for. A copy of that is not, so
the answer must have been made since the request began, for the proof that this request brings.
"""

from time import monotonic

from faregate.core.models import Headers, Request
from faregate.core.request_headers import PROOF
from faregate.core.responses import TRANSACTION

_SIZE = 1024
"""How many answers are remembered. One passes all paywalls of its process at once."""


class AnswerRecord:
    """The last answers of this process about payments, by their transactions. It needs no lock."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[str, int, float]] = {}
        """The proof, the status and the time."""

    def add(self, request: Request, status: int, headers: Headers) -> None:
        """Remember an answer of a paywall to this request, if it is about a payment."""
        transaction, proof = "", _find_proof(request)
        for name, value in headers:
            if name == TRANSACTION:  # as all paywalls spell it
                transaction = value
        if not (transaction and proof):
            return
        answers = self._answers
        answers.pop(transaction, None)  # the newest one is the last of the dict
        answers[transaction] = proof, status, monotonic()
        if len(answers) > _SIZE:
            try:
                answers.pop(next(iter(answers)), None)
            except RuntimeError:  # another thread changes it, and makes room
                return

    def has(self, request: Request, status: int, transaction: str | None, since: float) -> bool:
        """Whether an answer about this transaction was made for this request."""
        answer = self._answers.get(transaction or "")
        if answer is None:
            return False
        proof, answered, moment = answer
        return moment >= since and answered == status and proof == _find_proof(request)


def _find_proof(request: Request) -> str:
    """Find the proof of a request that a paywall has read, and that has one at most."""
    for name, value in request.headers:
        if name.lower() == PROOF:
            return value.strip(" \t")
    return ""


ANSWERS = AnswerRecord()
"""Of all paywalls of this process."""
