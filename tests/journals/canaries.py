"""A payment whose every secret can be recognised, wherever it is written."""

from collections.abc import Callable

from faregate.core.claim_types import Claimant, Replayable
from faregate.core.models import Response, WorkSucceeded
from faregate.journals.persistent import PersistentJournal
from tests.core.flow_script import ACR, OTHER_TXN, TXN
from tests.journals.rows import WORK_SECONDS, fresh
from tests.journals.stores import KEY

NAMES = ("proof", "url", "header", "body", "value", "response", "receipt")
SECRETS = (*(f"{name}-canary" for name in NAMES), "canary", "GET /", KEY.decode())


def write_canaries(journal: PersistentJournal, look: Callable[[], bytes]) -> bytes:
    """Take a payment through every state, and leave another one waiting. Return what `look` saw."""
    proof, url, header, body, value, response, receipt = SECRETS[: len(NAMES)]
    here = Claimant(f"GET /{url}")
    good = WorkSucceeded(Response(200, ((header, header),), body.encode() * 10_000), ((value, value),))
    lease = fresh(journal.claim(proof, here))
    seen = look()
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    journal.record_outcome(lease, good)
    seen += look()
    journal.record_settlement(lease, response, receipt, True)
    assert isinstance(journal.claim(proof, here), Replayable)
    journal.record_pending(fresh(journal.claim(f"{proof}-2", here)), OTHER_TXN, ACR)
    return seen + look()


def find_leaks(seen: bytes) -> list[str]:
    """Return which secrets were seen. The transaction id is none, and must be there."""
    assert TXN.encode() in seen
    return [secret for secret in SECRETS if secret.encode() in seen]
