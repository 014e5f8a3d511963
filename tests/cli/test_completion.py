"""`faregate completion`: a real bash, zsh and fish complete commands, options and values."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.shared import need
from tests.support.terminals import in_pipe, in_terminal

COMPLETED = [
    ("faregate re", ["receipt", "report", "resources"]),
    ("faregate transactions --s", ["--since", "--status"]),
    ("faregate transactions --status s", ["settling", "succeeded"]),
    ("faregate service key ", ["create", "list", "revoke"]),
]
"""What is typed, and what is offered for it."""


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


def write_script(shell: str, to: Path) -> None:
    need(shell, "" if shutil.which(shell) else f"there is no {shell} on this machine")
    ran = in_pipe(["completion", shell], {})
    assert (ran.status, ran.stderr) == (0, "")
    to.write_text(ran.stdout)


def test_fish_completes(tmp_path: Path) -> None:
    write_script("fish", tmp_path / "faregate.fish")
    asked = "".join(f"complete -C '{line}'\necho ---\n" for line, _ in COMPLETED)
    command = ["fish", "--no-config", "-c", f"source {tmp_path}/faregate.fish\n{asked}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=_home(tmp_path))
    offered = [one.split() for one in _keep_first_words(ran.stdout).split("---")][: len(COMPLETED)]
    assert [sorted(one) for one in offered] == [found for _, found in COMPLETED], ran.stderr


def test_zsh_completes(tmp_path: Path) -> None:
    """Only a zsh with a terminal completes: another zsh types, and waits for what is offered."""
    write_script("zsh", tmp_path / "_faregate")
    script = f"""
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "fpath=({tmp_path} \\$fpath); autoload -Uz compinit; compinit -u -D; print RE''ADY"
        zpty -r shell said '*READY*'
    """
    for line, found in COMPLETED:
        for one in found:  # each is listed once more than it was typed
            script += f"""
        zpty -w -n shell '{line}'$'\\t\\t'
        zpty -r shell said '*[^-a-z]{one}[^-a-z]*'
        zpty -w -n shell $'\\x15'
        print -- '{one}'
    """
    command = ["zsh", "-f", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=_home(tmp_path))
    assert ran.stdout.split() == [one for _, found in COMPLETED for one in found], ran.stderr


def _home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def _keep_first_words(lines: str) -> str:
    return " ".join(line.split("\t")[0] for line in lines.splitlines())


def test_without_shtab_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = in_pipe(["completion", "bash"], {})
    assert (ran.status, ran.stderr) == (2, "faregate: Completion needs shtab: pip install 'faregate[cli]'.\n")
