"""`faregate`: its table of commands, each of which is imported only when it is called for."""

import subprocess
import sys

import pytest

from faregate.cli import COMMANDS, main


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command_says_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: faregate {name} [-h]")
    assert told.split("\n\n")[1].rstrip().endswith(".")


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = (
        "import sys\nfrom faregate.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'faregate.paywall', 'faregate.emulator', 'httpx', 'pydantic'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.endswith("loaded: []\n")
