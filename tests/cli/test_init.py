"""`faregate init`: what it finds, what it leaves alone, and what it says when it cannot choose."""

import base64
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from faregate.cli.init.apps import App, find_apps
from faregate.cli.init.command import choose_app, choose_installed
from faregate.cli.init.places import Place, choose_place
from faregate.cli.init.templates import ENVIRON, REAL_ENVIRON, TEMPLATES
from faregate.cli.registry import INIT
from faregate.errors import CommandError, ConfigurationError
from faregate.paywall import Paywall
from faregate.settings import SETTINGS
from tests.support.preloaded import PreloadedPython
from tests.support.terminals import in_pipe, in_terminal
from tests.testing.suites import WITHOUT_OURS

PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
FILES = {"shop.py", "test_shop.py", "pytest.ini", ".env.example"}
FASTAPI = "from fastapi import FastAPI\n\napp = FastAPI()\n"
FACTORY = "import flask\n\ndef create_app(config=None):\n    app = flask.Flask(__name__)\n    return app\n"
STARLETTE = "from starlette.applications import Starlette as Web\n\nweb: Web = Web(debug=True)\n"
MCP = "from mcp.server import MCPServer\n\ntools = MCPServer('tools')\n"
MANAGE = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_of_mine.settings")\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, **sources: str) -> None:
    for name, source in sources.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("source", "app"),
    [
        (FASTAPI, App("fastapi", Path("web/main.py"), "web.main", "app")),
        (FACTORY, App("flask", Path("web/main.py"), "web.main", "create_app", is_factory=True)),
        (STARLETTE, App("starlette", Path("web/main.py"), "web.main", "web")),
        (MCP, App("mcp", Path("web/main.py"), "web.main", "tools")),
        (
            f"from faregate.fastapi import paid\n{FASTAPI}",
            App("fastapi", Path("web/main.py"), "web.main", "app", has_paywall=True),
        ),
        (FACTORY.replace("config=None", "config"), App("flask", Path("web/main.py"), "web.main")),
        ("from fastapi import APIRouter\nrouter = APIRouter()\n", None),
        ("this is not Python", None),
    ],
)
def test_an_application_is_found_in_the_source(source: str, app: App | None, folder: Path) -> None:
    write(folder, web__main=source, test_web=FASTAPI, conftest=FASTAPI, tests__web=FASTAPI)
    (folder / "environment").mkdir()
    (folder / "environment" / "pyvenv.cfg").touch()
    write(folder, environment__app=FASTAPI)
    assert find_apps(folder) == ([app] if app else [])


def test_a_django_project_is_found_by_its_manage_py(folder: Path) -> None:
    write(
        folder, manage=MANAGE, site_of_mine__settings="MIDDLEWARE = ['faregate.django.PaywallMiddleware']\n"
    )
    assert find_apps(folder) == [
        App("django", Path("site_of_mine/settings.py"), "site_of_mine.settings", has_paywall=True)
    ]


def test_it_writes_nothing_in_a_dry_run_or_over_a_file(folder: Path) -> None:
    dry = in_pipe(["init", "fastapi", "--dry-run"], {})
    assert (dry.status, names(folder)) == (0, set())
    assert "Would write\n  shop.py " in dry.stdout
    shown = in_terminal(["init", "--framework", "fastapi"], {})
    assert (shown.status, names(folder)) == (0, FILES)
    assert shown.stdout == dry.stdout.replace("Would write", "Writing")

    for name in ("shop.py", "pytest.ini", ".env.example"):
        (folder / name).write_text("mine\n")
    refused = in_pipe(["init", "--framework", "fastapi"], {})
    assert refused.status == 2
    assert refused.stderr.startswith(
        "faregate: shop.py and test_shop.py exist here, and nothing was written."
    )
    assert (folder / "shop.py").read_text() == "mine\n"
    forced = in_pipe(["init", "--framework", "fastapi", "--force"], {})
    assert "FastAPI" in (folder / "shop.py").read_text()
    assert (folder / ".env.example").read_text() == (folder / "pytest.ini").read_text() == "mine\n"
    assert "Add to your pytest settings:\n\n  faregate_base_url = emulator:\n" in forced.stdout


@pytest.mark.parametrize("framework", ["fastapi", "starlette", "flask", "mcp"])
def test_the_printed_lines_sell_in_an_application_that_is_there(framework: str, folder: Path) -> None:
    """It has a route and a function of the usual names already."""
    source = {
        "fastapi": f"{FASTAPI}\n@app.get('/report')\ndef report(): return 'mine'\n",
        "starlette": f"{STARLETTE}\nweb.add_route('/{{name}}', lambda request: None)\n",
        "flask": "import flask\nweb = flask.Flask('web')\n\n"
        "@web.get('/report')\ndef report(): return 'mine'\n",
        "mcp": f"{MCP}\n@tools.tool()\ndef report() -> str: return 'mine'\n",
    }
    write(folder, web=source[framework])
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nfaregate_base_url = "emulator:"\nfilterwarnings = "ignore"\n'
    )
    said = in_pipe(["init"], {})
    assert said.status == 0, said.stderr
    assert (folder / "web.py").read_text() == source[framework]
    assert names(folder) - {"__pycache__"} == {"web.py", "pyproject.toml", "test_shop.py", ".env.example"}
    lines = re.findall(r"^Add to web\.py:\n\n(.*?)\n\nNext$", said.stdout, re.MULTILINE | re.DOTALL)[0]
    with (folder / "web.py").open("a") as file:
        file.write(re.sub("^  ", "", lines, flags=re.MULTILINE) + "\n")
    assert run_pytest(folder) == 0


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (FASTAPI, Place("report", "report")),
        (f"{FASTAPI}\n@app.get('/report')\ndef today(): ...\n", Place("paid-report", "paid_report")),
        (f"{FASTAPI}\ndef report(): ...\n", Place("paid-report", "paid_report")),
        ("urlpatterns = [path('<slug:name>', page)]\n", Place("sold/paid-report", "sold_report")),
        ("urlpatterns = [re_path(r'^report$', page)]\n", Place("paid-report", "paid_report")),
        ("from pages import report, page as paid_report\n", Place("sold/paid-report", "sold_report")),
        (f"{FASTAPI}\n@app.get('/')\n@app.get('/reports/{{day}}')\ndef x(): ...\n", Place()),
    ],
)
def test_a_place_that_is_free_is_chosen(source: str, place: Place, folder: Path) -> None:
    write(folder, web=FASTAPI, pages__urls=source)
    assert choose_place(folder) == place


def test_the_framework_is_an_argument_and_still_an_option(folder: Path) -> None:
    shown = [in_pipe(["init", "--dry-run", *words], {}) for words in (["flask"], ["--framework", "flask"])]
    assert shown[0] == shown[1]
    assert "a Flask application" in shown[0].stdout
    wrong = in_pipe(["init", "flsk"], {})
    assert wrong.status == 2
    assert "'flsk' is not one of fastapi, starlette, flask, django, asgi, wsgi, mcp" in wrong.stderr


def test_a_server_of_tools_is_written_and_sells(folder: Path) -> None:
    said = in_pipe(["init", "mcp"], {})
    assert "an MCP server that sells the tool report" in said.stdout
    assert "faregate pay http://127.0.0.1:8000/mcp#report" in said.stdout
    assert run_pytest(folder) == 0


def test_the_printed_lines_sell_in_a_django_project(folder: Path) -> None:
    command = [sys.executable, "-m", "django", "startproject", "site_of_mine", "."]
    subprocess.run(command, cwd=folder, check=True)
    said = in_pipe(["init"], {})
    assert said.status == 0, said.stderr
    assert "python manage.py runserver 8000" in said.stdout
    blocks = said.stdout.partition("# site_of_mine/settings.py\n")[2].partition("\n\nNext")[0]
    for name, block in zip(("settings", "urls"), blocks.split("# your urls.py\n"), strict=True):
        with (folder / "site_of_mine" / f"{name}.py").open("a") as file:
            file.write(re.sub("^  ", "", block, flags=re.MULTILINE) + "\n")
    assert run_pytest(folder) == 0


def run_pytest(folder: Path) -> int | None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTEST"))}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *WITHOUT_OURS]
    with PreloadedPython(words, environ, str(folder)) as process:
        said, _ = process.communicate(120)
    assert "\n1 passed" in said, said
    return process.returncode


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (f"import nothing_like_it\n{FASTAPI}", "web cannot be imported (ModuleNotFoundError: "),
        (
            FACTORY.replace("config=None", "config"),
            "web.py makes its application where a test cannot import it",
        ),
    ],
)
def test_without_an_import_there_is_no_test(source: str, fault: str, folder: Path) -> None:
    write(folder, web=source)
    said = in_pipe(["init"], {})
    assert said.status == 0
    assert f"No test was written: {fault}" in said.stdout
    assert not (folder / "test_shop.py").exists()
    assert "PaywallMiddleware" in said.stdout or "Faregate(app)" in said.stdout


def test_several_applications_must_be_told_apart(folder: Path) -> None:
    write(folder, web=FASTAPI, old=FACTORY)
    apps = find_apps(folder)
    with pytest.raises(
        CommandError, match=r"old\.py \(Flask\) and web\.py \(FastAPI\)\. Choose one: --app old"
    ):
        choose_app(apps, None, None)
    assert choose_app(apps, None, "./web.py") == choose_app(apps, "fastapi", None) == apps[1]
    assert choose_app(apps, "django", None) is None
    with pytest.raises(CommandError, match=r"In shop\.py there is no application"):
        choose_app(apps, None, "shop.py")


def install(names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("json")
    monkeypatch.setattr("faregate.cli.init.command.find_spec", lambda name: spec if name in names else None)


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [({"fastapi", "starlette"}, "fastapi"), ({"starlette"}, "starlette"), ({"flask", "starlette"}, "flask")],
)
def test_without_an_application_what_is_installed_decides(
    installed: set[str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, monkeypatch)
    assert choose_installed() == chosen


STATES = [
    ({"fastapi", "flask", "django"}, "FastAPI, Flask and Django are"),
    (set[str](), "No framework is"),
]


@pytest.mark.parametrize(("installed", "state"), STATES)
def test_without_one_to_choose_and_without_a_terminal_it_lists_the_choices(
    installed: set[str], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, monkeypatch)
    said = (
        f"^{state} installed: name one, as in `faregate init fastapi`. The choices are fastapi, starlette, "
    )
    with pytest.raises(CommandError, match=said):
        choose_installed()


@pytest.mark.parametrize(
    ("answer", "chosen"), [("", "flask"), (" MCP ", "mcp"), ("wsgi", "wsgi"), ("djang", None), (None, None)]
)
def test_on_a_terminal_it_asks(
    answer: str | None,
    chosen: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def reply(question: str) -> str:
        assert question == "Which one? [flask] "
        if answer is None:
            raise EOFError
        return answer

    install({"flask", "django"}, monkeypatch)
    monkeypatch.setattr("faregate.cli.init.command.is_terminal", lambda _: True)
    monkeypatch.setattr("faregate.cli.init.command.is_stdout_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", reply)
    if chosen is None:
        with pytest.raises(CommandError, match=r"nothing was written|Did you mean django\?"):
            choose_installed()
    else:
        assert choose_installed() == chosen
    assert "Flask and Django are installed. The choices are fastapi" in capsys.readouterr().out


def test_each_framework_has_a_template() -> None:
    options = [one for one in INIT.options if one.name in ("name", "framework")]
    assert [option.choices for option in options] == [tuple(TEMPLATES)] * 2


def test_the_example_names_settings_that_exist() -> None:
    variables = set(re.findall(r"^(?:# )?(FAREGATE_\w+)=", ENVIRON, re.MULTILINE))
    assert variables <= {setting.variable for setting in SETTINGS.values()} | {"FAREGATE_JOURNAL"}
    assert variables >= {"FAREGATE_BASE_URL", "FAREGATE_API_KEY", "FAREGATE_JOURNAL_KEY"}


def test_the_example_for_real_payments_is_complete(folder: Path) -> None:
    """With what it names set, a paywall opens: for test, for live, and without money."""
    example = REAL_ENVIRON.replace("/var/lib/shop", str(folder))
    given = dict(re.findall(r"^(?:# )?(FAREGATE_\w+)=(.*)$", example, re.MULTILINE))
    del given["FAREGATE_SERVICE_PAYMENTS"]
    test = {name: given[name] for name in ("FAREGATE_BASE_URL", "FAREGATE_SERVICE_PAY_TO")}
    with pytest.raises(ConfigurationError, match=r"set\n  FAREGATE_SERVICE_PAY_TO: [^\n]*$"):
        Paywall(environ=test)
    test["FAREGATE_SERVICE_PAY_TO"] = given["FAREGATE_SERVICE_PAY_TO"] = PAY_TO
    key = base64.b64encode(bytes(32)).decode()
    urls = {name: "https://example.com" for name, value in given.items() if value == "https://..."}
    for environ in (
        test,
        test | {"FAREGATE_SERVICE_PAYMENTS": "simulated"},
        given | urls | {"FAREGATE_JOURNAL_KEY": key},
    ):
        Paywall(environ=environ).close()
    assert {name for name in given if name not in test} == set(urls) | {
        "FAREGATE_ENVIRONMENT",
        "FAREGATE_PUBLIC_URL",
        "FAREGATE_SERVICE_DATABASE",
        "FAREGATE_JOURNAL_KEY",
    }


@pytest.mark.parametrize("framework", ["fastapi", "flask", "django", "mcp"])
def test_real_prices_are_in_the_lines_for_an_application_that_is_there(framework: str, folder: Path) -> None:
    (folder / ".env.example").write_text("MINE=1\n")
    if framework == "django":
        write(folder, manage=MANAGE, site_of_mine__settings="")
    else:
        write(folder, web={"fastapi": FASTAPI, "flask": FACTORY, "mcp": MCP}[framework])
    said = in_pipe(["init", "--real", "--dry-run"], {})
    assert said.status == 0, said.stderr
    assert 'paid("daily_report", price="0.05 USDC")' in said.stdout
    assert "For real payments, .env.example needs:\n\n  FAREGATE_BASE_URL=service:" in said.stdout
    checks = {
        "fastapi": "faregate check web:app",
        "flask": "faregate check --factory web:create_app",
        "django": "python manage.py faregate_check",
        "mcp": "faregate check web:tools",
    }
    assert re.search(rf"^  {re.escape(checks[framework])} +#", said.stdout, re.MULTILINE)
