"""One way to write a paid handler, tried: is it sold, refused with a sentence, or given away?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from tests.attacks.content import Content
from tests.attacks.site import make_paywall

Make = Callable[[Paywall, Content], Any]
"""Makes an application that has the content at `/sold`, in one way of writing it."""

IMPORT, START, REQUEST, SOLD = "at import", "at the start", "with a request", "sold"


@dataclass
class Trial:
    """What became of it. `leaks` are the unpaid requests that got the content."""

    outcome: str = "nothing came of it"
    said: str = ""
    leaks: list[str] = field(default_factory=list)
    tries: int = 0
    sales: int = 0


def run_trial(make: Make, *, after_start: Callable[[Any], None] | None = None) -> Trial:
    """Make the application and start it; ask for the content, without paying and with a payment.

    Requests are made until one is refused with a sentence.
    """
    trial, content = Trial(), Content()
    try:
        app = make(make_paywall(), content)
    except (ConfigurationError, TypeError, AssertionError) as mistake:
        return _refused(trial, IMPORT, mistake)
    client = TestClient(app, base_url="http://seller.example")
    try:
        client.__enter__()
    except ConfigurationError as mistake:
        return _refused(trial, START, mistake)
    try:
        if after_start is not None:
            after_start(app)
        _attack(client, content, trial)
    except ConfigurationError as mistake:
        _refused(trial, REQUEST, mistake)
        _attack_on(client, content, trial)
    finally:
        client.__exit__(None, None, None)
    return trial


def _refused(trial: Trial, when: str, mistake: Exception) -> Trial:
    trial.outcome, trial.said = when, str(mistake)
    return trial


def _attack(client: TestClient, content: Content, trial: Trial) -> None:
    """Two sales, with unpaid requests before, between and after."""
    for _ in range(2):
        _ask(client, content, trial)
        _ask(client, content, trial)
        unpaid = _ask(client, content, trial)
        if unpaid.status_code == 402 and "payment-required" in unpaid.headers:
            proof = Wallet().pay(unpaid.headers["payment-required"])
            answer = client.get("/sold", headers={**MEMBER, "PAYMENT-SIGNATURE": proof})
            if content.mark("body") in answer.text and "payment-response" in answer.headers:
                trial.sales += 1
    _ask(client, content, trial)
    if trial.sales == 2:
        trial.outcome = SOLD


def _attack_on(client: TestClient, content: Content, trial: Trial) -> None:
    """After a refusal: nothing is given away either."""
    for _ in range(3):
        try:
            _ask(client, content, trial)
        except ConfigurationError:
            continue


def _ask(client: TestClient, content: Content, trial: Trial) -> Any:
    trial.tries += 1
    answer = client.get("/sold", headers=MEMBER)
    if content.found_in([answer.content]) & {"body"}:
        trial.leaks.append(f"request {trial.tries}: {answer.status_code}")
    return answer


MEMBER = {"x-member": "yes"}
"""What a login on the site asks for."""
