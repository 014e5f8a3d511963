"""Every code block is tried: Python is run, commands and files are read by the programs they are for.

A language that nothing tries is an error; `SHOWN` names those that are only shown, and why.
"""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from itertools import takewhile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from faregate import cli
from tests.docs.blocks import BLOCKS, ROOT, Block
from tests.servers.shared import need
from tests.support.snippets import RUN_ELSEWHERE, SNIPPETS

SHOWN = {
    "": "what a command printed",
    "text": "a picture, or what a command printed",
    "mermaid": "a diagram; test_site sees it drawn",
}
PROGRAMS = {
    "taskset",
    ".",
    "cd",
    "chmod",
    "cp",
    "createdb",
    "curl",
    "docker",
    "export",
    "flask",
    "git",
    "gunicorn",
    "hypercorn",
    "kill",
    "node",
    "kubectl",
    "ln",
    "mkdir",
    "nginx",
    "npm",
    "npx",
    "openssl",
    "opentelemetry-instrument",
    "pg_dump",
    "pg_restore",
    "pip",
    "pipx",
    "printf",
    "psql",
    "pytest",
    "python",
    "python3",
    "rm",
    "set",
    "sh",
    "sqlite3",
    "sudo",
    "systemctl",
    "uvicorn",
    "waitress-serve",
}
"""Programs that commands in the docs may call, beside ours and the scripts of the repository."""
_COMMENT = re.compile(r"(?:^|\s)#\s.*$")
_PLACEHOLDER = re.compile(r"^[A-Z_]+=")


def blocks(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_each_language_is_tried_or_only_shown() -> None:
    tried = {"python", "sh", "json", "toml", "ini", "nginx", "systemd", "js"}
    assert {
        (block.language, block.place) for block in BLOCKS if block.language not in tried | set(SHOWN)
    } == set()


def test_each_python_block_is_run() -> None:
    """By test_readme, or by the test that `RUN_ELSEWHERE` names."""
    run = {snippet.place for snippet in SNIPPETS if not snippet.takes_fixtures}
    for block in blocks("python"):
        first = block.line - 1 if block.note else block.line
        elsewhere = block.page in RUN_ELSEWHERE or block.page == "README.md"
        assert elsewhere or {f"{block.page}:{first}", block.place} & run, block.place


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.place)
def test_commands_can_be_typed(block: Block) -> None:
    shell = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True, timeout=30)
    assert shell.returncode == 0, shell.stderr
    for line in block.code.replace("\\\n", " ").splitlines():
        for command in re.split(r"\s(?:&&|\|\|?)\s", _COMMENT.sub("", line)):
            words = shlex.split(command)
            while words and _PLACEHOLDER.match(words[0]):
                words.pop(0)
            if words:
                check_command(words)


def check_command(words: list[str]) -> None:
    """Raises unless this can be called. A `$NAME` stands for any value."""
    program, *rest = words
    program = program.removeprefix(".venv/bin/")
    if program == "faregate":
        parse_ours(rest)
    elif program == "flask" and "faregate" in rest:
        parse_ours(rest[rest.index("faregate") + 1 :], at_home=False)
    elif any(word.startswith("faregate_") for word in rest):
        [command] = [word for word in rest if word.startswith("faregate_")]
        after = rest[rest.index(command) + 1 :]
        parse_ours([command.removeprefix("faregate_"), *after], at_home=False)
    elif program == "pip" and "install" in rest:
        check_extras(rest)
    elif program.startswith("scripts/"):
        assert (ROOT / program).is_file(), program
    else:
        assert program in PROGRAMS or Path(program).name in PROGRAMS or "$" in program, program


def parse_ours(words: list[str], *, at_home: bool = True) -> None:
    """By the parser of the command. Flask and Django name no application, which `faregate` wants for some."""
    if not at_home and words[:1] in (["routes"], ["check"]):
        words = [words[0], "shop:app", *words[1:]]
    words = [word.strip("[]") for word in takewhile(lambda word: word not in ("<", ">", ">>"), words)]
    words = ["1" if word.startswith("$") else word for word in words]
    parser = cli.build_parser(words)
    try:
        parser.parse_args(words)
    except SystemExit as ended:
        if ended.code != 0:
            pytest.fail(f"faregate {shlex.join(words)}")


def check_extras(words: list[str]) -> None:
    """Each extra of faregate that is installed exists."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for word in words:
        if found := re.match(r"(?:faregate|\.|\./faregate\S*\.whl|\S*/faregate\S*)\[([^\]]+)\]$", word):
            assert set(found[1].split(",")) <= extras, word
        elif re.match(r"[a-z][\w-]*(\[|[<>=]|$)", word) and word not in ("pip", "install"):
            Requirement(word)


def check_json(code: str) -> None:
    """Whole documents, or members of one."""
    json.loads(code if code.lstrip().startswith(("{", "[")) else f"{{{code}}}")


def check_ini(code: str) -> None:
    """A whole file, or lines of one section."""
    code = code if code.lstrip().startswith(("[", "#")) else f"[section]\n{code}"
    ConfigParser(interpolation=None, strict=False).read_string(code)


@pytest.mark.parametrize(
    ("block", "read"),
    [
        pytest.param(block, read, id=block.place)
        for language, read in {"json": check_json, "toml": tomllib.loads, "ini": check_ini}.items()
        for block in blocks(language)
    ],
)
def test_a_file_can_be_read(block: Block, read: Callable[[str], object]) -> None:
    read(block.code)


def test_node_reads_each_module(tmp_path: Path) -> None:
    """Their imports are found by tests/e2e/test_paying_client_typescript.py, which runs the example."""
    node = shutil.which("node")
    need("node", "" if node else "node is not installed")
    for block in blocks("js"):
        (tmp_path / "module.mjs").write_text(block.code)
        command = [str(node), "--check", str(tmp_path / "module.mjs")]
        said = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert said.returncode == 0, f"{block.place}: {said.stderr}"


def test_nginx_reads_each_configuration(tmp_path: Path) -> None:
    """What stands in `http { }`. Certificates are left out."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    need("nginx", "" if nginx else "nginx is not installed")
    for block in blocks("nginx"):
        code = re.sub(r"^\s*ssl_certificate.*\n", "", block.code, flags=re.MULTILINE).replace(" ssl;", ";")
        (tmp_path / "nginx.conf").write_text(
            f"pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ access_log off;\n{code}\n}}\n"
        )
        command = [str(nginx), "-t", "-q", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        said = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert said.returncode == 0, f"{block.place}: {said.stderr}"


def test_systemd_reads_each_unit(tmp_path: Path) -> None:
    """Programs and files that this machine lacks are no fault of the unit."""
    need("systemd", "" if shutil.which("systemd-analyze") else "systemd is not installed")
    for block in blocks("systemd"):
        kind = next((kind for kind in ("timer", "socket") if f"[{kind.title()}]" in block.code), "service")
        (tmp_path / "shop.service").write_text("[Service]\nExecStart=/bin/true\n")
        unit = tmp_path / f"shop.{kind}"
        unit.write_text(re.sub(r"^(Exec\w+=)\S+", r"\1/bin/true", block.code, flags=re.MULTILINE))
        command = ["systemd-analyze", "verify", str(unit)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        faults = [line for line in said.stderr.splitlines() if unit.name in line and "not found" not in line]
        assert not faults, f"{block.place}: {said.stderr}"
