"""The Python code of `docs/emulator.md` runs."""

import re
from pathlib import Path

from faregate.emulator import Emulator, SettlementRule, Wallet

PAGE = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PAYER = Wallet.test("good").address


def test_the_code_runs_from_top_to_bottom() -> None:
    """Except what needs a transaction or an x402 client, which other tests have."""
    names = {"emulator": Emulator(), "SettlementRule": SettlementRule}
    for block in BLOCKS:
        if "instructions" in block or "client.set_spend_controls" in block or "txn_..." in block:
            continue
        exec(compile(block.replace("0x...payer...", PAYER), "docs/emulator.md", "exec"), names)
    assert {"clock", "rule", "before", "document", "tenants"} <= set(names)
