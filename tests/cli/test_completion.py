"""`faregate completion`: a real bash completes commands, options and values."""

import subprocess
import sys

import pytest

from tests.support.terminals import in_pipe, in_terminal


@pytest.fixture(scope="module")
def script() -> str:
    ran = in_pipe(["completion", "bash"], {})
    assert (ran.status, ran.stderr) == (0, "")
    assert in_terminal(["completion", "bash"], {}).stdout == ran.stdout
    return ran.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["trans"], ["transactions"]),
        (["transactions", "--sta"], ["--status"]),
        (["transactions", "--status", "s"], ["settling", "succeeded"]),
        (["holds", "dis"], ["discard"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_completes(script: str, words: list[str], found: list[str]) -> None:
    line = " ".join(f"'{word}'" for word in ["faregate", *words])
    asked = (
        f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}\n'
        'function=$(complete -p faregate | sed "s/.*-F \\([^ ]*\\).*/\\1/")\n'
        '$function\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(["bash", "--norc", "-c", script + asked], capture_output=True, text=True, check=True)
    assert sorted(one.strip() for one in ran.stdout.split("\n") if one.strip()) == found, ran.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(shell: str) -> None:
    ran = in_pipe(["completion", shell], {})
    assert ran.status == 0
    assert "transactions" in ran.stdout


def test_without_shtab_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = in_pipe(["completion", "bash"], {})
    assert (ran.status, ran.stderr) == (2, "faregate: Completion needs shtab: pip install 'faregate[cli]'.\n")
