"""Let stock clients buy for some seconds. `scripts/stock-clients` has a thousand purchases."""

from examples.chain.typescript_payer import NoTypeScript, install_client

from tests.crash.clients.__main__ import WRONGS
from tests.servers.shared import need
from tests.support.campaigns import run_campaign


def test_stock_clients_pay_once_and_get_what_they_paid_for() -> None:
    try:
        install_client()
    except NoTypeScript as error:
        need("npm", str(error))
        raise
    words = ("--applications", "faregate", "--purchases", "24", "--delays", "0,3", "--at-once", "6")
    status, [result] = run_campaign("tests.crash.clients", *words)
    assert (status, {wrong: result[wrong] for wrong in WRONGS}) == (0, dict.fromkeys(WRONGS, 0)), result
    assert result["delivered"] == 24
    assert result["lost_answers"] > 0
