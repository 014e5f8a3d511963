"""The site is built from the pages: complete, without dead links, and without anything from another host."""

import importlib
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest

import faregate

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md"))
INTERNAL = {
    "faregate.emulator.control",
    "faregate.emulator.faults",
    "faregate.merchant.openapi",
    "faregate.service.chain.direct",
}
"""Packages with `__all__` for other packages of faregate only."""
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"([^\"]+)\"|<link\b[^>]*?\bhref=\"([^\"]+)\""
)


@pytest.fixture(scope="module")
def site() -> Path:
    done = subprocess.run([ROOT / "scripts" / "docs"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "site"


def public_names() -> set[str]:
    """Each name of each `__all__`, as `module:name`."""
    names = set[str]()
    for module in pkgutil.walk_packages(faregate.__path__, "faregate."):
        path = ROOT / "src" / module.name.replace(".", "/")
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if module.name not in INTERNAL and re.search(r"^__all__ = ", source.read_text(), re.MULTILINE):
            exported: list[str] = importlib.import_module(module.name).__all__
            names |= {f"{module.name}:{name}" for name in exported}
    return names | {f"faregate:{name}" for name in faregate.__all__}


def test_each_page_is_there_and_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    for page in PAGES:
        assert (site / f"{page}.html").exists(), page
        assert (site / f"{page}.md").exists(), page
        assert re.search(rf'href="(?:\./)?{page}\.html', home) or page.name == "index", page


def test_each_page_has_its_place_in_the_index(site: Path) -> None:
    """Those that docs/index.md does not name are in a section of the navigation called More."""
    others = (site / "llms.txt").read_text().partition("## More")[2]
    assert re.findall(r"\]\((\S+)\)", others) == [], "add the page to docs/index.md"


def read_title(path: str) -> str:
    """The first heading of a page, as the navigation has it."""
    outside = {"contributing/index.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
    source = ROOT / {**outside, "security.md": "SECURITY.md"}.get(path, f"docs/{path}")
    return re.sub(r"[`*]", "", source.read_text().partition("\n")[0].removeprefix("# "))


def test_a_page_has_one_name(site: Path) -> None:
    """In its heading, in the navigation and in docs/index.md."""
    for title, path in re.findall(
        r"^- \[([^\]]+)\]\((\S+?)\)", (site / "llms.txt").read_text(), re.MULTILINE
    ):
        assert title == read_title(path), path
    index = (ROOT / "docs" / "index.md").read_text().partition("## Start")[2]
    for text, path in re.findall(r"^\* \[([^\]]+)\]\(([^)#]+\.md)\)", index, re.MULTILINE):
        if not path.startswith("../"):
            assert text.replace("`", "") == read_title(path), path


def test_pages_for_contributors_stand_last_and_folded(site: Path) -> None:
    page = (site / "settings.html").read_text()
    menu = page[page.index("md-nav--primary") : page.index('class="md-content"')]
    places = {
        path: found.start()
        for found in re.finditer(r'href="(?:\./)?([\w/-]+\.html)"', menu)
        for path in [found[1]]
    }
    group = menu.index("How it is built")
    of_contributors = {path for path in places if path.startswith("contributing/")} - {
        "contributing/index.html"
    }
    assert len(of_contributors) > 15
    assert all((place > group) == (path in of_contributors) for path, place in places.items())
    toggle = menu[menu[:group].rindex("<input") : group].partition(">")[0]
    assert "checked" not in toggle


def test_a_table_of_prose_is_stacked_on_a_narrow_screen(site: Path) -> None:
    settings = (site / "settings.html").read_text()
    assert "--head-4: 'Meaning'" in settings
    assert settings.index('class="stacked"') < settings.index("FAREGATE_PUBLIC_URL</code>")


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {
        (page.name, address)
        for page in site.rglob("*.html")
        for found in _LOADED.findall(page.read_text())
        for address in found
        if re.match(r"https?:|//", address) and 'rel="canonical"' not in address
    }
    assert loaded == set()
    assert not [page for page in site.rglob("*.html") if "@import" in page.read_text()]


def test_no_link_of_the_site_is_left_as_in_the_repository(site: Path) -> None:
    """A link to a file beside docs/ leads to the repository; a link to a page ends in .html."""
    for page in site.rglob("*.html"):
        assert not re.findall(r'href="(?!https?:)[^"]*\.(?:md|py)(?:#[^"]*)?"', page.read_text()), page


def test_each_public_name_is_described(site: Path) -> None:
    """On a page of docs/api/, with its docstring; see `INTERNAL` for names that are not public."""
    pages = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    files = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    for public in sorted(public_names()):
        module, _, name = public.partition(":")
        block = re.search(rf"<!-- api: {re.escape(module)} -->\n(.*?)<!-- end of api -->", files, re.DOTALL)
        assert block, f"{module} has no place in docs/api/"
        row = re.search(rf"^\| `{re.escape(name)}` \| (.*) \|$", block[1], re.MULTILINE)
        assert row, f"{public} is not in docs/api/"
        assert row[1].strip(), f"{public} has no docstring"
        assert f"<code>{name}</code>" in pages or re.search(rf'id="[\w.]+\.{name}"', pages), public


def test_programs_find_each_page_as_text(site: Path) -> None:
    listed = re.findall(r"^- \[[^\]]+\]\((\S+?)\)", (site / "llms.txt").read_text(), re.MULTILINE)
    whole = (site / "llms-full.txt").read_text()
    assert len(listed) >= len(PAGES) - 1
    for path in listed:
        assert (site / path).read_text().strip() in whole, path
