"""`faregate routes` and `faregate check`, run as a user runs them: in a directory, by their words."""

import json
import os
import re
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from faregate.cli import main
from faregate.routes.check import IN_MEMORY, UNKNOWN, UNPREDICTABLE
from tests.support.command_words import ask_for_text
from tests.support.preloaded import run_preloaded
from tests.support.processes import environment

ROOT = Path(__file__).parents[2]
NOTE = IN_MEMORY.format("FAREGATE_JOURNAL")
WELL = f"All is well: 1 offer can be sold.\n{NOTE}\n{UNPREDICTABLE}\n"

SHOP = """
from fastapi import Depends, FastAPI
from faregate.fastapi import PaywallMiddleware, paid

app = FastAPI(openapi_url=None)
app.add_middleware(PaywallMiddleware, refuse=["/drafts"])


@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> str:
    return "Sunny."


@app.get("/drafts/{name}")
async def draft(name: str) -> str:
    return name


class Held:
    app = app


def make():
    return app


def broken():
    return 1 // 0


number = 3
"""

TABLE = """\
ACCESS   METHODS  PATH            SELLS         HANDLER
paid     GET      /report         daily_report  shop.report
refused  GET      /drafts/{name}  -             shop.draft

1 paid, 0 free, 1 refused
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def faregate_process(folder: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-I", "-m", "faregate", *ask_for_text(words)],
        cwd=folder,
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=120,
    )


def forked(folder: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, because Django has one configuration in each."""
    return run_preloaded(["-m", "faregate", *ask_for_text(words)], environment(**environ), folder)


def faregate(folder: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The same in this process, which saves the imports; what it imported from the folder is forgotten."""
    path = [*sys.path]
    names = [file.stem for file in folder.glob("*.py")]
    for name in names:
        sys.modules.pop(name, None)  # another test may have left one of this name
    with (
        chdir(folder),
        mock.patch.dict(os.environ, environment(**environ), clear=True),
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        try:
            status = main(ask_for_text(words))
        except SystemExit as stopped:  # argparse, at a wrong call
            status = int(stopped.code or 0)
        finally:
            sys.path[:] = path
            for name in names:
                sys.modules.pop(name, None)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


RUNS = [
    (faregate_process, ["shop:app"]),
    (faregate, ["shop:Held.app"]),
    (faregate, ["--factory", "shop:make"]),
]


@pytest.mark.parametrize(("run", "words"), RUNS)
def test_the_routes_are_listed_without_any_setting(folder: Path, run: Any, words: list[str]) -> None:
    done = run(folder, "routes", *words)
    assert (done.stdout, done.stderr, done.returncode) == (TABLE, "", 0)


def test_the_directory_can_be_named(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert faregate(elsewhere, "routes", "shop:app", "--app-dir", str(folder)).stdout == TABLE


def test_json(folder: Path) -> None:
    told = json.loads(faregate(folder, "routes", "shop:app", "--json").stdout)
    assert [route["access"] for route in told["routes"]] == ["paid", "refused"]
    assert (told["unmatched"], told["faults"]) == ([], [])


def test_a_prefix_that_matches_nothing_is_a_fault_and_named(folder: Path) -> None:
    (folder / "shop.py").write_text(SHOP.replace('refuse=["/drafts"]', 'refuse=["/drafts", "/draughts"]'))
    done = faregate(folder, "routes", "shop:app")
    assert done.returncode == 1
    assert done.stdout.endswith("\nNothing is below /draughts: no route matches this prefix.\n")
    told = faregate(folder, "routes", "shop:app", "--json")
    assert (told.returncode, json.loads(told.stdout)["unmatched"]) == (1, ["/draughts"])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["shop"], 2, "'shop' does not name an application. Use MODULE:APP, such as shop:app."),
        (["shop:"], 2, "'shop:' does not name an application."),
        (["shob:app"], 2, "There is no module 'shob' here."),
        (["shop:ap"], 2, "The module 'shop' has no 'ap'."),
        (["shop:number"], 2, "shop:number is not an application but of type int."),
        (["shop:make"], 2, "shop:make is a function, not an application. Add --factory if it returns one."),
        (["shop:number", "--factory"], 2, "shop:number cannot be called: leave --factory out."),
        (["shop:broken", "--factory"], 1, "shop:broken failed: ZeroDivisionError: "),
        (["needs:app"], 1, "needs could not be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (["crooked:app"], 1, "crooked could not be imported: SyntaxError: "),
        (["unset:app"], 1, "Where is the merchant service? Set FAREGATE_BASE_URL"),
    ],
)
def test_each_mistake_is_one_sentence(folder: Path, words: list[str], status: int, said: str) -> None:
    (folder / "needs.py").write_text("import nowhere\n")
    (folder / "crooked.py").write_text("def (:\n")
    (folder / "unset.py").write_text("from faregate import Paywall\n\nPaywall()\n")
    done = faregate(folder, "routes", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"faregate: {said}")
    assert done.stderr.count("\n") == 1


def test_without_a_target_it_is_a_wrong_call(folder: Path) -> None:
    assert faregate(folder, "routes").returncode == 2


def test_a_flask_app_is_listed_by_its_own_module(folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from flask import Flask\n"
        "from faregate.flask import Faregate\n"
        "app = Flask('shop')\n"
        "paywall = Faregate(app)\n"
        "@app.get('/report')\n"
        "@paywall.paid('daily_report')\n"
        "def report():\n"
        "    return 'Sunny.'\n"
    )
    done = faregate(folder, "routes", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert done.returncode == 0, done.stderr
    assert ["paid", "GET", "/report", "daily_report", "report"] in map(str.split, done.stdout.splitlines())
    asked = faregate(folder, "check", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert (asked.stdout, asked.returncode) == (WELL, 0)


@pytest.mark.parametrize("protocol", ["wsgi", "asgi"])
def test_a_django_project_is_listed_by_its_own_module(folder: Path, protocol: str) -> None:
    (folder / "shop.py").write_text(
        "from django.conf import settings\n"
        "settings.configure(\n"
        "    ROOT_URLCONF='shop_urls', SECRET_KEY='x', INSTALLED_APPS=['faregate.django'],\n"
        "    MIDDLEWARE=['faregate.django.PaywallMiddleware'], FAREGATE={'REFUSE': ['/drafts']})\n"
        f"from django.core.{protocol} import get_{protocol}_application\n"
        f"app = get_{protocol}_application()\n"
    )
    (folder / "shop_urls.py").write_text(
        "from django.http import HttpResponse\n"
        "from django.urls import path\n"
        "from faregate.django import paid\n"
        "def report(request): return HttpResponse('Sunny.')\n"
        "def draft(request, number): return HttpResponse('Rain?')\n"
        "urlpatterns = [path('report/', paid('daily_report')(report)), path('drafts/<int:number>', draft)]\n"
    )
    done = forked(folder, "routes", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[1:3]] == [
        ["paid", "any", "/report/", "daily_report", "shop_urls.report"],
        ["refused", "any", "/drafts/<int:number>", "-", "shop_urls.draft"],
    ]
    asked = forked(folder, "check", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert (asked.stdout, asked.returncode) == (WELL, 0), asked.stderr


def test_a_flask_app_behind_the_wsgi_door_is_listed_by_its_prefixes(folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from flask import Flask\n"
        "from faregate.wsgi import PaywallMiddleware\n"
        "app = PaywallMiddleware(Flask('shop'), offers={'/reports': 'daily_report'})\n"
    )
    done = faregate(folder, "routes", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert [line.split()[:4] for line in done.stdout.splitlines()[1:3]] == [
        ["paid", "any", "/reports/*", "daily_report"],
        ["free", "any", "/*", "-"],
    ]


@pytest.mark.parametrize("page", ["fastapi", "starlette"])
def test_the_docs_show_what_is_said(folder: Path, page: str) -> None:
    text = (ROOT / "docs" / "adapters" / f"{page}.md").read_text()
    [said] = re.findall(r"<!-- said by: faregate routes shop:app -->\n```\n(.*?)```", text, re.DOTALL)
    of = {"fastapi": "APIRouter(prefix=", "starlette": "inner = Starlette("}[page]
    [seller] = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if of in one]
    (folder / "shop.py").write_text(seller)
    assert faregate(folder, "routes", "shop:app", FAREGATE_BASE_URL="emulator:").stdout == said


def test_check_asks_the_service(folder: Path) -> None:
    done = faregate(folder, "check", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert (done.stdout, done.stderr, done.returncode) == (WELL, "", 0)
    (folder / "shop.py").write_text(SHOP.replace("daily_report", "daily_paper"))
    unknown = faregate(folder, "check", "shop:app", FAREGATE_BASE_URL="emulator:")
    assert unknown.returncode == 1
    assert unknown.stdout.startswith("daily_paper: Nothing is sold as 'daily_paper' in this environment.")
    told = faregate(folder, "check", "shop:app", "--json", FAREGATE_BASE_URL="emulator:")
    assert told.returncode == 1
    assert json.loads(told.stdout)["sells"] == ["daily_paper"]
    assert json.loads(told.stdout)["notes"] == [NOTE, UNKNOWN]
    assert unknown.stdout.endswith(f"{UNKNOWN}\n")


def test_check_fails_with_a_key_that_may_not_sell(folder: Path) -> None:
    reader = {"FAREGATE_BASE_URL": "emulator:", "FAREGATE_API_KEY": "svc_test_emulator_readonly"}
    told = faregate(folder, "check", "shop:app", **reader)
    assert told.returncode == 1
    assert "All is well" not in told.stdout
    assert told.stdout.startswith(
        "The API key may not authorize access, so nothing can be sold: 403 forbidden"
    )


def test_check_without_settings_and_without_offers(folder: Path) -> None:
    unset = faregate(folder, "check", "shop:app")
    assert (unset.returncode, unset.stderr) == (1, "")
    assert unset.stdout.startswith("Where is the merchant service?")
    (folder / "free.py").write_text("async def app(scope, receive, send): ...\n")
    free = faregate(folder, "check", "free:app")
    assert (free.returncode, free.stdout) == (1, "Nothing is for sale in this application.\n")
