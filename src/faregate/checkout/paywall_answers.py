"""Recognise what another paywall of this process answers to the same request.

A paywall further inside may be one that this one does not see: of an ASGI application behind a bridge in a
WSGI one, or of Django behind middleware of Starlette. What it releases is paid for. A copy of that is not, so
the answer must have been made since the request began, for the proof that this request brings.
"""

from time import monotonic

from faregate.core.models import Headers, Request
from faregate.core.request_headers import BadProof, find_proof
from faregate.core.responses import TRANSACTION
from faregate.core.withholding import find_transaction

_SIZE = 1024
"""How many answers are remembered. One passes all paywalls of its process at once."""


class AnswerRecord:
    """The last answers of this process about payments, by their transactions. It needs no lock."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, int, float]] = {}
        """A hash of the proof, which is a credential and not kept, the status and the time."""

    def add(self, request: Request, status: int, headers: Headers) -> None:
        """Remember an answer of a paywall to this request, if it is about a payment."""
        # By its name as a paywall spells it: most answers are results with headers of their own.
        transaction = dict(headers).get(TRANSACTION)
        if transaction is None or (proof := _hash_proof(request)) is None:
            return
        answers = self._answers
        answers.pop(transaction, None)  # the newest one is the last of the dict
        answers[transaction] = proof, status, monotonic()
        if len(answers) > _SIZE:
            try:
                answers.pop(next(iter(answers)), None)
            except RuntimeError:  # another thread changes it, and makes room
                return

    def has(self, request: Request, status: int, headers: Headers, since: float) -> bool:
        """Whether the answer with these headers was made for this request."""
        answer = self._answers.get(find_transaction(headers) or "")
        if answer is None:
            return False
        proof, answered, moment = answer
        return moment >= since and answered == status and proof == _hash_proof(request)


def _hash_proof(request: Request) -> int | None:
    """Hash the one proof of a request; None if it has none, or none that a paywall reads."""
    try:
        proof = find_proof(request)
    except BadProof:
        return None
    return None if proof is None else hash(proof)


ANSWERS = AnswerRecord()
"""Of all paywalls of this process."""
