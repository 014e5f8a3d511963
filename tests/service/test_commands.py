"""`faregate service init | apply | key`, on a SQLite file."""

import io
import json
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.service.command import CATALOG, build_environment, call

REAL = {
    "FAREGATE_SERVICE_PAYMENTS": "direct",
    "FAREGATE_SERVICE_RPC_TEST": "http://127.0.0.1:1",
    "FAREGATE_SERVICE_GAS_KEY": "env:GAS_KEY",
}
ADDRESS = "0x" + "1" * 40
DEAD = "0x000000000000000000000000000000000000dEaD"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a database, and a catalog that was applied."""
    assert call(tmp_path, "init").returncode == 0
    (tmp_path / "catalog.toml").write_text(CATALOG)
    assert call(tmp_path, "apply", "catalog.toml").returncode == 0
    return tmp_path


def fail(folder: Path, *words: str, **environ: str) -> str:
    """Run a command that fails; return its error."""
    ran = call(folder, *words, **environ)
    assert (ran.returncode, ran.stdout) == (1, "")
    return ran.stderr


def test_without_tables_the_remedy_is_named(tmp_path: Path) -> None:
    assert "run `faregate service init`" in fail(tmp_path, "key", "list")


def test_without_a_seller_the_remedy_is_named(tmp_path: Path) -> None:
    assert "is ready" in call(tmp_path, "init").stdout
    assert "run `faregate service apply catalog.toml` first" in fail(tmp_path, "key", "create")


def test_a_seller_that_is_unknown_is_named(shop: Path) -> None:
    error = fail(shop, "export", "--seller", "nobody")
    assert "There is no seller 'nobody' in test. Say which seller with --seller: Shop." in error


def test_applying_twice_changes_nothing(shop: Path) -> None:
    ran = call(shop, "apply", "catalog.toml")
    assert (ran.returncode, ran.stdout) == (0, "nothing to change\n")


def test_a_new_price_is_a_new_revision(shop: Path) -> None:
    (shop / "catalog.toml").write_text(CATALOG.replace("amount = 5", "amount = 6"))
    changes = json.loads(call(shop, "apply", "catalog.toml", "--json", "--yes").stdout)["changes"]
    assert {(one["environment"], one["resource"], one["kind"]) for one in changes} == {
        ("test", "mine", "revised"),
        ("live", "mine", "revised"),
    }


def test_a_fault_in_the_catalog_is_named(shop: Path) -> None:
    (shop / "catalog.toml").write_text(CATALOG.replace("amount", "amont"))
    error = fail(shop, "apply", "catalog.toml")
    assert "resources[0].revisions[0].amont" in error
    assert "at least 1 item" not in error  # what follows from the fault is no fault of its own


def test_an_address_that_was_not_filled_in_is_named_in_words(shop: Path) -> None:
    (shop / "catalog.toml").write_text(CATALOG.replace("0x" + "1" * 40, "0xYOURS"))
    error = fail(shop, "apply", "catalog.toml")
    assert "seller.pay_to: must be an address: 0x and 40 hex digits" in error


def test_a_mistyped_address_is_refused(shop: Path) -> None:
    (shop / "catalog.toml").write_text(CATALOG.replace(ADDRESS, DEAD.replace("dEaD", "dEad")))
    error = fail(shop, "apply", "catalog.toml")
    assert "seller.pay_to: is mistyped: its upper and lower case letters do not match its digits" in error


@pytest.mark.parametrize("typed", [DEAD, DEAD.lower(), "0x" + DEAD[2:].upper()])
def test_an_address_may_be_typed_in_one_case(tmp_path: Path, typed: str) -> None:
    call(tmp_path, "init")
    (tmp_path / "catalog.toml").write_text(CATALOG.replace(ADDRESS, typed))
    assert f"paid to {DEAD}" in call(tmp_path, "apply", "catalog.toml").stdout


def change(shop: Path, *changes: tuple[str, str]) -> None:
    """Write the catalog with these changes."""
    text = CATALOG
    for old, new in changes:
        text = text.replace(old, new)
    (shop / "catalog.toml").write_text(text)


NAMED = ("[seller]\n", '[seller]\nid = "shop"\n')


@pytest.mark.parametrize(
    "other",
    [
        [(ADDRESS, DEAD)],
        [('"Shop"', '"New"')],
        [('"Shop"', '"New"'), (ADDRESS, DEAD)],
        [NAMED, (ADDRESS, DEAD)],
    ],
)
def test_a_seller_without_an_id_never_changes(shop: Path, other: list[tuple[str, str]]) -> None:
    # The same seller with another address, or a second one of the same name: nothing tells.
    change(shop, *other)
    error = fail(shop, "apply", "catalog.toml", "--yes")
    assert f"The database has the seller 'Shop', paid to {ADDRESS}, and the catalog has" in error
    assert "write a line such as `id = 'shop'` under [seller]" in error
    change(shop)
    assert call(shop, "apply", "catalog.toml").stdout == "nothing to change\n"


def test_a_seller_with_an_id_keeps_its_account_and_keys(shop: Path) -> None:
    key = json.loads(call(shop, "key", "create", "--json").stdout)["id"]
    change(shop, NAMED)
    assert f"Shop, paid to {ADDRESS}, id shop" in call(shop, "apply", "catalog.toml").stdout
    change(shop, NAMED, ('"Shop"', '"New"'), (ADDRESS, DEAD))
    shown = call(shop, "apply", "catalog.toml", "--yes").stdout
    assert f"New instead of Shop, paid to {DEAD} instead of {ADDRESS}, id shop" in shown
    assert key in call(shop, "key", "list").stdout
    assert key in call(shop, "key", "list", "--seller", "shop").stdout


def test_two_sellers_of_one_name_never_meet(shop: Path) -> None:
    change(shop, NAMED)
    call(shop, "apply", "catalog.toml")
    change(shop, (NAMED[0], '[seller]\nid = "other"\n'), (ADDRESS, DEAD))
    assert "give --yes" in call(shop, "apply", "catalog.toml").stderr
    assert "created" in call(shop, "apply", "catalog.toml", "--yes").stdout
    assert "Say which seller with --seller: other, shop." in fail(shop, "key", "list", "--seller", "Shop")
    change(shop, NAMED)
    assert call(shop, "apply", "catalog.toml").stdout == "nothing to change\n"
    change(shop)
    assert "write `id` under [seller]. Known ids: other, shop." in fail(shop, "apply", "catalog.toml")


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ((ADDRESS, DEAD), f"Shop, paid to {DEAD} instead of {ADDRESS}"),
        (("amount = 5", "amount = 6"), "revision 2: 0.000006 USDC instead of 0.000005 USDC"),
        (('"mine"', '"mine"\nrequire_payment = false'), "require_payment"),
    ],
)
def test_who_is_paid_and_what_changes_only_if_a_person_says_so(
    shop: Path, other: tuple[str, str], shown: str
) -> None:
    change(shop, NAMED)
    call(shop, "apply", "catalog.toml")
    change(shop, NAMED, other)
    error = fail(shop, "apply", "catalog.toml")
    assert shown in error
    assert "This changes who is paid, or a price. If it should, give --yes." in error
    assert "Nothing was changed" in answer(shop, "n\n").stderr
    assert "Nothing was changed" in answer(shop, "").stderr
    confirmed = answer(shop, "y\n")
    assert (confirmed.returncode, shown in confirmed.stdout) == (0, True)
    assert call(shop, "apply", "catalog.toml").stdout == "nothing to change\n"


def answer(shop: Path, typed: str) -> "subprocess.CompletedProcess[str]":
    """Apply the catalog on a terminal where a person types this."""
    with patch.object(sys, "stdin", Terminal(typed)):
        return call(shop, "apply", "catalog.toml")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_costs_nobody_more_needs_no_consent(shop: Path) -> None:
    change(shop, ('name = "Mine"', 'name = "Ours"'))
    assert "changed (name)" in call(shop, "apply", "catalog.toml").stdout


def test_a_process_that_serves_changes_no_price(shop: Path) -> None:
    change(shop, ("amount = 5", "amount = 6"))
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends in any case
        port = str(taken.getsockname()[1])
        error = fail(shop, "serve", "--catalog", "catalog.toml", "--port", port)
    assert "0.000006 USDC instead of 0.000005 USDC" in error
    assert "run `faregate service apply catalog.toml` first" in error
    change(shop)
    assert call(shop, "apply", "catalog.toml").stdout == "nothing to change\n"


def test_real_payments_never_go_to_the_address_of_the_example(shop: Path) -> None:
    lines = [line for line in CATALOG.splitlines() if "pay_to" not in line]
    (shop / "catalog.toml").write_text("\n".join(lines))
    assert "has no address of its own" in fail(shop, "apply", "catalog.toml", **REAL)


def test_a_key_is_shown_once(shop: Path) -> None:
    made = json.loads(call(shop, "key", "create", "--name", "first", "--json").stdout)
    assert made["key"].startswith("svc_test_")
    listed = call(shop, "key", "list", "--json").stdout
    assert made["key"] not in listed
    (known,) = json.loads(listed)["keys"]
    assert (known["id"], known["name"], known["revoked_at"]) == (made["id"], "first", None)
    assert known["key"].endswith(made["key"][-4:])
    assert made["key"].encode() not in (shop / "faregate-service.db").read_bytes()


def test_a_revoked_key_is_listed_as_such(shop: Path) -> None:
    made = json.loads(call(shop, "key", "create", "--json", "--capability", "payers:read").stdout)
    assert call(shop, "key", "revoke", made["id"]).returncode == 0
    text = call(shop, "key", "list").stdout
    assert "revoked" in text
    assert "payers:read" in text
    assert call(shop, "key", "revoke", made["id"]).returncode == 1


def test_live_keys_need_real_payments(shop: Path) -> None:
    live = ("key", "create", "--environment", "live")
    assert "Live keys need real payments" in fail(shop, *live)
    assert "set rpc_live" in fail(shop, *live, **REAL)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'sqlalchemy' else find(name, *a)\n"
        "from faregate.cli import main; sys.exit(main(['service', 'init']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=build_environment(), capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "pip install 'faregate[service]'" in ran.stderr
