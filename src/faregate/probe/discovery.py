"""What the service sells, as far as a probe needs it: looked at without paying."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from x402.schemas import PaymentRequired

from faregate.cli.command import CommandError
from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.answers import AccessDecision
from faregate.merchant.contracts import ContractRevision, ContractsDocument
from faregate.merchant.wire import parse
from faregate.pay.requirements import NotSigned, parse_payment_required
from faregate.pay.wallet import PayerWallet
from faregate.probe.client import Line
from faregate.probe.verdicts import shown

LOOKED_AT = 20
SELLER = "https://probe.faregate.example"
SLOW = "slow_settlement"
"""The emulator's resource with late payments."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user named; None is looked for."""

    resource: str | None = None
    revision: str | None = None
    free: str | None = None
    slow: str | None = None


@dataclass(frozen=True, slots=True)
class Ware:
    """Something that can be bought. `atomic` is its price in atomic units of the revision's asset."""

    revision: ContractRevision
    required: PaymentRequired
    atomic: int

    @property
    def values(self) -> dict[str, str]:
        """The least that must be reported."""
        return dict.fromkeys(self.revision.required, "1")


@dataclass(frozen=True, slots=True)
class Market:
    """What was found. None is what this service does not have, or not for this payer."""

    revisions: Sequence[ContractRevision]
    ware: Ware | None
    metered: Ware | None
    slow: Ware | None
    free: ContractRevision | None


def access_body(revision: ContractRevision, path: str = "probe") -> dict[str, Any]:
    """The body of access for this revision; `path` tells one resource from another."""
    return {
        "revision_id": revision.revision_id,
        "resource": {"url": f"{SELLER}/{path}", "mime_type": "application/json"},
        "settlement_asset": revision.settlement_asset,
    }


def look_around(line: Line, wallet: PayerWallet, wanted: Wanted) -> Market:
    """Reads the contracts and asks for access to some, without a proof. Raises `CommandError`."""
    revisions = _revisions(line)
    wares: list[Ware] = []
    free: list[ContractRevision] = []
    for revision in _interesting(revisions, wanted):
        reply = line.post("/access", access_body(revision))
        if _is_free(reply):
            free.append(revision)
        elif (ware := _ware(revision, reply, wallet)) is not None:
            wares.append(ware)
    return Market(
        revisions,
        ware=_chosen(wares, wanted),
        metered=next((ware for ware in wares if ware.revision.required), None),
        slow=_keyed(wares, wanted.slow or SLOW),
        free=_free(revisions, free, wanted.free),
    )


def _revisions(line: Line) -> list[ContractRevision]:
    reply = line.get("/contracts?include_integration_key=true")
    if reply.status != 200:
        raise CommandError(f"The contracts cannot be read: {shown(reply)}. Is this the service, and its key?")
    return list(parse(ContractsDocument, reply).components.schemas.values())


def _interesting(revisions: Sequence[ContractRevision], wanted: Wanted) -> list[ContractRevision]:
    """What the user named, then as many of the others as a probe may ask for."""
    keys = {key: None for key in (wanted.resource, wanted.free, wanted.slow) if key is not None}
    known = {one.integration_key for one in revisions}
    for key in keys:
        if key not in known:
            raise CommandError(f"There is no active resource with the integration key {key!r}.")
    if wanted.revision is not None and wanted.revision not in {one.revision_id for one in revisions}:
        raise CommandError(f"{wanted.revision} is no active revision here.")
    named = [one for one in revisions if one.integration_key in keys or one.revision_id == wanted.revision]
    return named + [one for one in revisions if one not in named][:LOOKED_AT]


def _is_free(reply: Response) -> bool:
    try:
        return reply.status == 200 and parse(AccessDecision, reply).transaction_id is None
    except BadAnswer:
        return False


def _ware(revision: ContractRevision, reply: Response, wallet: PayerWallet) -> Ware | None:
    """None for what asks for no payment, or for one that the payer may not sign."""
    header = reply.first("payment-required")
    if reply.status != 402 or header is None:
        return None
    try:
        required = parse_payment_required(header)
        return Ware(revision, required, int(wallet.select_requirements(required).amount))
    except NotSigned:
        return None


def _chosen(wares: Sequence[Ware], wanted: Wanted) -> Ware | None:
    """What was named, else the cheapest; of two, one that needs no values."""
    if wanted.revision is not None:
        return next((one for one in wares if one.revision.revision_id == wanted.revision), None)
    if wanted.resource is not None:
        return _keyed(wares, wanted.resource)
    usual = (one for one in wares if one.revision.integration_key != SLOW)
    return min(usual, key=lambda ware: (bool(ware.revision.required), ware.atomic), default=None)


def _free(
    revisions: Sequence[ContractRevision], found: Sequence[ContractRevision], named: str | None
) -> ContractRevision | None:
    """What was named as free is taken at its word: whether it is, is for a check to see."""
    if named is None:
        return found[0] if found else None
    return next((one for one in revisions if one.integration_key == named), None)


def _keyed(wares: Sequence[Ware], key: str) -> Ware | None:
    return next((one for one in wares if one.revision.integration_key == key), None)
