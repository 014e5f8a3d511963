"""`init`: choose the framework, write the files, and say what to do next."""

import os
import subprocess
import sys
import textwrap
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from faregate.cli.init.apps import App, find_apps
from faregate.cli.init.places import Place, choose_place
from faregate.cli.init.templates import (
    APP_FILE,
    ENVIRON,
    ENVIRON_FILE,
    PYTEST_FILE,
    PYTEST_INI,
    PYTEST_LINE,
    REAL_ENVIRON,
    TEMPLATES,
    TEST_FILE,
    add_prices,
    format_app,
    format_test,
)
from faregate.cli.terminal import format_table, is_stdout_terminal, is_terminal
from faregate.errors import CommandError, nearest_name

_PYTEST_SECTIONS: Final = {
    PYTEST_FILE: "",
    "pytest.toml": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
_NEEDED: Final = {"uvicorn": "emulator", "starlette": "emulator", "eth_account": "emulator", "x402": "pay"}
"""The extra that brings each package which the commands below need."""
_NEEDED_REAL: Final = dict.fromkeys(("cryptography", "eth_keys", "sqlalchemy"), "service")
_REAL_LINES: Final = "FAREGATE_BASE_URL=service:\nFAREGATE_SERVICE_PAY_TO=0x..."
_SIMULATED: Final = "FAREGATE_BASE_URL=service: FAREGATE_SERVICE_PAYMENTS=simulated"
_ABOUT: Final = {
    TEST_FILE: "buys it in a test",
    PYTEST_FILE: "lets tests use the emulator",
    ENVIRON_FILE: "the settings, for test and for live",
}
_IMPORT_SECONDS: Final = 60
_IMPORT: Final = "import sys, importlib as i; getattr(i.import_module(sys.argv[1]), sys.argv[2])"
_IMPORT_SETTINGS: Final = (
    "import os, sys, django; os.environ['DJANGO_SETTINGS_MODULE'] = sys.argv[1]; django.setup()"
)


def run_init(arguments: Namespace) -> int:
    """Write the files into the current folder.

    Raises `CommandError` if it cannot choose a framework or an application, or would overwrite a file.
    """
    folder = Path.cwd()
    named: str | None = arguments.name or arguments.framework
    app = choose_app(find_apps(folder), named, arguments.app)
    framework = app.framework if app else named or choose_installed()
    # What is sold there already is for the seller to say.
    place = choose_place(folder) if app and not app.has_paywall else Place()
    files, notes = build_files(folder, framework, app, place)
    if arguments.real:
        files = {name: add_prices(text) for name, text in files.items()}
        if ENVIRON_FILE in files:
            files[ENVIRON_FILE] = REAL_ENVIRON
        else:
            notes.append(f"For real payments, {ENVIRON_FILE} needs:\n\n{textwrap.indent(_REAL_LINES, '  ')}")
    existing = [name for name in files if (folder / name).exists()]
    if existing and not arguments.force:
        raise CommandError(
            f"{_join(existing, 'and')} {'exist' if len(existing) > 1 else 'exists'} here, and nothing was "
            "written. --force overwrites."
        )
    if app:
        print(f"Found a {TEMPLATES[framework].title} application in {app.path}, which stays as it is.")
    if files:
        print(_describe_files(files, framework, "Would write" if arguments.dry_run else "Writing"))
    print(flush=True)
    if not arguments.dry_run:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    describe_next = _describe_next_real if arguments.real else _describe_next
    print("\n\n".join([*notes, *describe_next(framework, app, place, has_test=TEST_FILE in files)]))
    return 0


def choose_app(apps: Sequence[App], framework: str | None, path: str | None) -> App | None:
    """The one application that is meant; None if there is none. Raises `CommandError` if it is not clear."""
    if path:
        meant = [app for app in apps if app.path == Path(os.path.normpath(path))]
        if not meant:
            raise CommandError(
                f"In {path} there is no application of FastAPI, Starlette, Flask, Django or MCP."
            )
        apps = meant
    elif framework:
        apps = [app for app in apps if app.framework == framework]
    if len(apps) > 1:
        names = _join([f"{app.path} ({TEMPLATES[app.framework].title})" for app in apps], "and")
        raise CommandError(f"There are several applications here: {names}. Choose one: --app {apps[0].path}")
    return apps[0] if apps else None


def choose_installed() -> str:
    """The one framework that is installed. On a terminal, asks if there is none, or more than one.

    Raises `CommandError` if there is no terminal to ask on, or the answer is not a framework.
    """
    # FastAPI, MCP and the emulator bring Starlette: that it is installed says little.
    installed = [name for name in ("fastapi", "flask", "django", "mcp") if find_spec(name)]
    if not installed and find_spec("starlette"):
        return "starlette"
    if len(installed) == 1:
        return installed[0]
    titles = [TEMPLATES[name].title for name in installed]
    state = f"{_join(titles, 'and')} are installed" if titles else "No framework is installed"
    if is_terminal(sys.stdin) and is_stdout_terminal():
        return _ask_for_framework(state, installed[0] if installed else "fastapi")
    raise CommandError(f"{state}: name one, as in `faregate init fastapi`. {_CHOICES}")


_CHOICES: Final = f"The choices are {', '.join(TEMPLATES)}."


def _ask_for_framework(state: str, default: str) -> str:
    print(f"{state}. {_CHOICES}")
    try:
        answer = input(f"Which one? [{default}] ").strip().lower() or default
    except (EOFError, KeyboardInterrupt):
        raise CommandError("No framework was chosen, and nothing was written.") from None
    if answer not in TEMPLATES:
        raise CommandError(f"{answer} is none of them. {_CHOICES}{nearest_name(answer, TEMPLATES)}")
    return answer


def build_files(
    folder: Path, framework: str, app: App | None, place: Place
) -> tuple[dict[str, str], list[str]]:
    """The text of each file to write, and what to tell about files that are not written."""
    files: dict[str, str] = {}
    notes: list[str] = []
    if app is None:
        files[APP_FILE] = format_app(framework)
        files[TEST_FILE] = format_test(
            framework, Path(APP_FILE).stem, _get_default_name(framework), place, is_factory=False
        )
    elif fault := find_import_fault(folder, app):
        notes.append(f"No test was written: {fault}.")
    else:
        files[TEST_FILE] = format_test(framework, app.module, app.name, place, is_factory=app.is_factory)
    settings = _read_pytest_settings(folder)
    if settings is None:
        files[PYTEST_FILE] = PYTEST_INI
    elif "faregate_base_url" not in settings:
        notes.append(f"Add to your pytest settings:\n\n  {PYTEST_LINE}")
    # Existing settings are the user's own: not even --force overwrites them.
    if not (folder / ENVIRON_FILE).exists():
        files[ENVIRON_FILE] = ENVIRON
    return files, notes


def find_import_fault(folder: Path, app: App) -> str:
    """Why a test cannot import the application; empty if it can.

    A process of its own imports it, as pytest will: what the application changes at import stays there.
    """
    if not app.name and app.framework != "django":
        return f"{app.path} makes its application where a test cannot import it"
    code = [_IMPORT, app.module, app.name] if app.name else [_IMPORT_SETTINGS, app.module]
    environ = {**os.environ, "FAREGATE_BASE_URL": "emulator:"}
    try:
        done = subprocess.run(  # noqa: S603 - their application, by the interpreter of this command
            [sys.executable, "-c", *code],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"importing {app.module} took more than {_IMPORT_SECONDS} seconds"
    last = done.stderr.strip().rpartition("\n")[2]
    return f"{app.module} cannot be imported ({last})" if done.returncode else ""


def _read_pytest_settings(folder: Path) -> str | None:
    """The text of the file with pytest's settings; None if there is none."""
    for name, section in _PYTEST_SECTIONS.items():
        path = folder / name
        if path.is_file() and section in (text := path.read_text(encoding="utf-8", errors="replace")):
            return text
    return None


def _describe_files(files: dict[str, str], framework: str, verb: str) -> str:
    title = TEMPLATES[framework].title
    kind, sold = ("server", "the tool report") if framework == "mcp" else ("application", "/report")
    article = "an" if title in ("ASGI", "MCP") else "a"
    about = {APP_FILE: f"{article} {title} {kind} that sells {sold}", **_ABOUT}
    return f"{verb}\n{format_table([('', name, about[name]) for name in files])}"


def _describe_next(framework: str, app: App | None, place: Place, *, has_test: bool) -> list[str]:
    parts = [_describe_lines(app, place)] if app else []
    if missing := _find_missing(framework, _NEEDED):
        parts.append(f"First install\n  {missing}")
    commands = _list_commands("FAREGATE_BASE_URL=emulator:", "# run it", framework, app, place)
    if has_test:
        commands.append(("", "pytest", "# test it"))
    return [*parts, f"Next\n{format_table(commands)}"]


def _describe_next_real(framework: str, app: App | None, place: Place, *, has_test: bool) -> list[str]:
    parts = [add_prices(_describe_lines(app, place))] if app else []
    if missing := _find_missing(framework, _NEEDED | _NEEDED_REAL):
        parts.append(f"First install\n  {missing}")
    first = _list_commands(_SIMULATED, "# run it; no money moves", framework, app, place)
    if has_test:
        first.append(("", "pytest", "# test it"))
    then = [
        ("", f"cp {ENVIRON_FILE} .env", "# write your address into .env"),
        ("", "set -a; . ./.env; set +a", ""),
        ("", _format_check(framework, app), "# ask the node and the facilitator"),
        ("", _format_run(framework, app), "# run it"),
    ]
    return [
        *parts,
        f"Next\n{format_table(first)}",
        f"Then, to be paid on the test network\n{format_table(then)}",
    ]


def _list_commands(
    settings: str, comment: str, framework: str, app: App | None, place: Place
) -> list[tuple[str, str, str]]:
    """List the commands that run the application and buy from it."""
    run = ("", f"{settings} {_format_run(framework, app)}", comment)
    if framework == "mcp" and app is not None and app.is_factory:  # how it is served is the seller's
        return [run]
    sold = f"mcp#{place.function}" if framework == "mcp" else place.route
    return [run, ("", f"faregate pay http://127.0.0.1:8000/{sold}", "# buy, in a second terminal")]


def _describe_lines(app: App, place: Place) -> str:
    if app.has_paywall:
        sold = "the tool report, say a tool" if app.framework == "mcp" else "/report, say a path"
        return f"{app.path} already imports faregate. For {sold} that it sells."
    template = TEMPLATES[app.framework]
    where = "Add" if app.framework == "django" else f"Add to {app.path}"
    if app.is_factory or not app.name:
        where += ", where the application is made"
    name = _get_default_name(app.framework) if app.is_factory or not app.name else app.name
    lines = template.lines.format(app=name, file=app.path, route=place.route, function=place.function)
    return f"{where}:\n\n{textwrap.indent(lines, '  ')}".rstrip()


def _get_default_name(framework: str) -> str:
    return "server" if framework == "mcp" else "app"


def _format_run(framework: str, app: App | None) -> str:
    template = TEMPLATES[framework]
    if app is None:
        target = "shop" if framework == "flask" else "shop:app"
        return template.run.format(target=target, script=APP_FILE)
    name = app.name or "app"
    if framework == "mcp":  # its application is made of the server
        return (
            f"python {app.path}"
            if app.is_factory
            else f"uvicorn --factory {app.module}:{name}.streamable_http_app"
        )
    run = template.run_factory if app.is_factory else template.run
    return run.format(target=f"{app.module}:{name}", script="manage.py")


def _format_check(framework: str, app: App | None) -> str:
    if framework == "django":
        return f"python {'manage.py' if app else APP_FILE} faregate_check"
    if app is None:
        return f"faregate check {Path(APP_FILE).stem}:{_get_default_name(framework)}"
    name = app.name or _get_default_name(framework)
    return f"faregate check {'--factory ' if app.is_factory else ''}{app.module}:{name}"


def _find_missing(framework: str, needed: Mapping[str, str]) -> str:
    """The command that installs what the next commands need; empty if all of it is there."""
    template = TEMPLATES[framework]
    extras = {extra for package, extra in needed.items() if not find_spec(package)}
    if not find_spec(template.package):
        extras.add("wsgi" if framework == "wsgi" else template.package)
    others = [] if find_spec("pytest") else ["pytest"]
    faregate = [f"'faregate[{','.join(sorted(extras))}]'"] if extras else []
    return " ".join(["pip install", *faregate, *others]) if extras or others else ""


def _join(texts: Sequence[str], conjunction: str) -> str:
    *others, last = texts
    return f"{', '.join(others)} {conjunction} {last}" if others else last
