"""Settings from options, variables and a file; messages that name what the person typed; no secrets."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from faregate.commands import Command, fill_parser
from faregate.errors import ConfigurationError
from faregate.service.settings import Settings, list_options, read_settings

SECRET = "5ec2e7"
DIRECT = {
    "FAREGATE_SERVICE_PAYMENTS": "direct",
    "FAREGATE_SERVICE_GAS_KEY": "env:GAS_KEY",
    "FAREGATE_SERVICE_RPC_TEST": f"https://rpc.example/v3/{SECRET}",
    "FAREGATE_SERVICE_DATABASE": f"postgresql://app:{SECRET}@db.example/service",
}


def read(*words: str, **environ: str) -> Settings:
    parser = ArgumentParser()
    fill_parser(parser, Command("test", "test", options=list_options()))
    return read_settings(parser.parse_args(words), environ)


def test_nothing_is_needed_for_a_simulation() -> None:
    settings = read()
    assert settings.database == "sqlite:///faregate-service.db"
    assert settings.payments == "simulated"
    assert settings.environments == ("test",)


def test_an_option_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(
        'port = 1\nthreads = 2\nworkers = 3\nrpc_test = ["https://a.example", "https://b.example"]\n'
    )
    variables = {"FAREGATE_SERVICE_PORT": "4", "FAREGATE_SERVICE_THREADS": "5"}
    settings = read("--config", str(file), "--port", "6", **variables)
    assert (settings.port, settings.threads, settings.workers) == (6, 5, 3)
    assert settings.rpc_test == ("https://a.example", "https://b.example")
    assert read(FAREGATE_SERVICE_CONFIG=str(file)).port == 1


def test_lists_are_separated_by_commas_or_spaces() -> None:
    settings = read("--rpc-test", "https://a.example,https://b.example https://c.example")
    assert settings.rpc_test == ("https://a.example", "https://b.example", "https://c.example")


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (("--port", "http"), {}, "--port must be a whole number, not 'http'."),
        (
            (),
            {"FAREGATE_SERVICE_THREADS": "0"},
            "FAREGATE_SERVICE_THREADS must be between 1 and 1000, not 0.",
        ),
        ((), {"FAREGATE_SERVICE_TREADS": "1"}, "FAREGATE_SERVICE_TREADS is not a setting. Did you mean"),
        (("--max-fee-gwei", "NaN"), {}, "--max-fee-gwei must be above 0, and at most 100000."),
        (("--gas-alarm-eth", "much"), {}, "--gas-alarm-eth must be a number, not 'much'."),
        (("--expose-execution-id", "maybe"), {}, "--expose-execution-id must be true or false, not 'maybe'."),
        (("--payments", "paypal"), {}, "--payments must be simulated, facilitator or direct, not 'paypal'."),
        (("--rpc-test", "rpc.example"), {}, "--rpc-test must be a URL"),
        (("--rpc-test", "ftp://a"), {}, "such as https://host/path, that is a full http or https URL"),
        (("--auth-hook", "sign"), {}, "--auth-hook must be module.function"),
        (("--gas-key", "0xabc"), {}, "--gas-key must be file:PATH, env:NAME or call:module.function"),
        (("--payments", "facilitator"), {}, "Set FAREGATE_SERVICE_RPC_TEST or FAREGATE_SERVICE_RPC_LIVE."),
        (("--payments", "direct", "--rpc-test", "http://a"), {}, "needs gas_key"),
        (
            ("--payments", "facilitator", "--rpc-test", "http://a", "--facilitator-live", "http://b"),
            {},
            "rpc_test needs facilitator_test",
        ),
        (
            ("--payments", "facilitator", "--facilitator-live", "http://b", "--rpc-test", "http://a"),
            {"FAREGATE_SERVICE_FACILITATOR_TEST": "http://c"},
            "facilitator_live needs rpc_live",
        ),
        (("--database-file", "/no/such/file"), {}, "--database-file: cannot read /no/such/file"),
        ((), {"FAREGATE_PORT": "tcp://10.0.0.1:80"}, "enableServiceLinks: false"),
    ],
)
def test_a_mistake_is_named_as_it_was_typed(
    words: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(*words, **environ)
    assert said in str(raised.value)


def test_a_mistake_in_the_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    for text, said in (
        ("port = 'x'", f"port in {file} must be a whole number"),
        ("port = true", f"port in {file} must be int, not bool."),
        ("rpc_test = [1]", f"rpc_test in {file} must be a URL"),
        ("max_fee_gwei = nan", f"max_fee_gwei in {file} must be above 0"),
        ("complete_seconds = inf", f"complete_seconds in {file} must be between 0 and 60"),
        ("prot = 1", f"{file}: prot is not a setting. Did you mean port?"),
        ("port = ", f"{file} is not TOML"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigurationError) as raised:
            read("--config", str(file))
        assert said in str(raised.value)


def test_live_keys_need_a_chain() -> None:
    rpc = {"FAREGATE_SERVICE_RPC_LIVE": "https://rpc.example"}
    assert read(**rpc).environments == ("test",)
    direct = {"FAREGATE_SERVICE_PAYMENTS": "direct", "FAREGATE_SERVICE_GAS_KEY": "env:X"}
    assert read(**direct, **rpc).environments == ("live",)
    both = {**rpc, "FAREGATE_SERVICE_RPC_TEST": "https://sepolia.example"}
    assert read(**direct, **both).environments == ("test", "live")


def test_secrets_are_in_no_repr_and_no_message() -> None:
    assert SECRET not in repr(read(**DIRECT))
    for broken in (
        {"FAREGATE_SERVICE_RPC_TEST": f"https://u:{SECRET}@rpc.example"},
        {"FAREGATE_SERVICE_RPC_TEST": f"https://rpc.example/ {SECRET}"},
        {"FAREGATE_SERVICE_GAS_KEY": f"0x{SECRET}"},
        {"FAREGATE_SERVICE_PORT": "x"},
    ):
        with pytest.raises(ConfigurationError) as raised:
            read(**{**DIRECT, **broken})
        assert SECRET not in str(raised.value)


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "database"
    file.write_text(f"postgresql://app:{SECRET}@db.example/service\n")
    settings = read(FAREGATE_SERVICE_DATABASE_FILE=str(file))
    assert settings.database == f"postgresql://app:{SECRET}@db.example/service"
