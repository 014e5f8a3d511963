"""What is published and what publishes it: metadata, workflows, hooks and the emulator's image."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from faregate.checkout.argument_checks import LOWEST_STARLETTE
from tests.support.shell import Terminal

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
DOCKERFILE = (ROOT / "examples/emulator/Dockerfile").read_text()


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_the_published_readme_has_no_link_to_a_file_and_no_address_that_is_not_decided(
    metadata: dict[str, Any],
) -> None:
    published, ours = metadata["readme"]["text"], (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", published)

    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert links == [
        link for link in re.findall(r"\]\(([^)]+)\)", ours) if link.startswith(("https://", "#"))
    ]
    assert "\n* Sells the tools of MCP servers to agents" in published
    assert "urls" not in metadata
    assert ".example" not in (ROOT / "pyproject.toml").read_text()


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    """Templates, style sheets and scripts of the pages, and the contract, are files beside the modules."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("faregate/")}
    files = (path for path in (ROOT / "src/faregate").rglob("*") if path.is_file())
    ours = {str(path.relative_to(ROOT / "src")) for path in files if "__pycache__" not in path.parts}
    assert "faregate/pages/templates/payment.html" in packed
    assert packed == ours


def test_the_classifiers_are_the_pythons_that_are_tested(metadata: dict[str, Any]) -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata["classifiers"]))
    [run] = re.findall(r"\$\{VERSIONS:-([\d. ]+)\}", (ROOT / "scripts/versions").read_text())

    assert named == ["3.11", *run.split()]
    assert metadata["requires-python"] == ">=3.11"


def test_every_extra_wants_the_starlette_that_the_paywall_wants() -> None:
    lowest = ".".join(map(str, LOWEST_STARLETTE))
    named = re.findall(r'"starlette>=([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert len(named) > 3
    assert set(named) == {lowest}


@pytest.mark.parametrize(
    ("schema", "files"),
    [("github-workflows", WORKFLOWS), ("github-issue-forms", FORMS)],
    ids=["workflows", "forms"],
)
def test_the_files_for_the_host_are_valid(schema: str, files: list[Path]) -> None:
    assert files
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.{schema}",
        *map(str, files),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_scripts_that_exist_with_variables_they_read(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    steps = [step for job in jobs for step in job["steps"] if "run" in step]
    ours = [step for step in steps if step["run"].startswith((".ci/", "scripts/"))]

    assert ours
    for step in ours:
        script = ROOT / step["run"].split()[0]
        assert os.access(script, os.X_OK), script
        assert all(name in script.read_text() for name in step.get("env", ())), step


def test_the_hooks_run_tools_of_the_virtual_environment() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split()[0] for hook in local["hooks"]}

    assert {Path(tool).parent for tool in tools} == {Path(".venv-faregate/bin")}
    assert [tool for tool in tools if not (Path(sys.prefix) / "bin" / Path(tool).name).exists()] == []


@pytest.mark.parametrize(("tag", "message"), [("v9.9.9", "TAG is 'v9.9.9'"), ("", "TAG is ''")])
def test_a_release_under_another_tag_is_refused(tag: str, message: str) -> None:
    done = subprocess.run(
        ["scripts/package", "--release"],
        cwd=ROOT,
        env={**os.environ, "TAG": tag},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert message in done.stderr


def test_a_release_without_the_address_of_the_repository_is_refused(metadata: dict[str, Any]) -> None:
    done = subprocess.run(
        ["scripts/package", "--release"],
        cwd=ROOT,
        env={**os.environ, "TAG": f"v{metadata['version']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "has no Source in [project.urls]: decide where the repository lives" in done.stderr


def test_the_image_of_the_emulator_is_healthy_while_it_answers(tmp_path: Path) -> None:
    """Its commands run as they are, without a container."""
    [check] = re.findall(r"^HEALTHCHECK .*\n +CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    [start] = re.findall(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.MULTILINE)
    port = json.loads(start)[json.loads(start).index("--port") + 1]
    command = " ".join(json.loads(start)).replace(f"--port {port}", "--port 0")

    def is_healthy(address: str) -> bool:
        _, *options = json.loads(check.replace(f"http://127.0.0.1:{port}", address))
        return subprocess.run([sys.executable, *options], capture_output=True, timeout=30).returncode == 0

    with Terminal(tmp_path).start(command, re.compile(r"http://0\.0\.0\.0:\d+")) as address:
        here = address.replace("0.0.0.0", "127.0.0.1")
        assert is_healthy(here)
    assert not is_healthy(here)
