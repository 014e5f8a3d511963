"""Build the site. See `scripts/docs`."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from docs_site.diagrams import draw_diagrams, find_undrawn, show_diagrams
from docs_site.llms import make_full_text, make_llms_txt
from docs_site.navigation import Section, read_navigation
from docs_site.pages import (
    DOCS,
    ROOT,
    Page,
    find_repository,
    read_pages,
    with_site_links,
    with_stacked_tables,
)
from docs_site.public_names import with_docstrings
from docs_site.tables import find_old_tables, write_tables

STAGE = ROOT / ".cache" / "site"
SITE = ROOT / "site"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_OWN = Path(__file__).parent
_SUMMARY = (
    "A paywall for Python web applications: it charges for HTTP requests with x402 version 2. "
    "A result leaves the application only after its payment is proven."
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation into site/.")
    parser.add_argument("--serve", action="store_true", help="serve it on http://127.0.0.1:8001 afterwards")
    parser.add_argument("--tables", action="store_true", help="update the tables made from code first")
    parser.add_argument("--diagrams", action="store_true", help="draw the Mermaid diagrams first, with npm")
    arguments = parser.parse_args()
    if arguments.tables:
        write_tables()
    if arguments.diagrams:
        draw_diagrams(read_pages())
    started = time.monotonic()
    if wrong := build():
        print(wrong, file=sys.stderr)
        return 1
    print(f"Built {SITE.relative_to(ROOT)}/index.html in {time.monotonic() - started:.1f} s.")
    if arguments.serve:
        command = [sys.executable, "-m", "http.server", "-b", "127.0.0.1", "-d", str(SITE), "8001"]
        return subprocess.run(command).returncode
    return 0


def build() -> str:
    """Build the site; returns what is wrong with the pages, or nothing."""
    if old := find_old_tables():
        return f"scripts/docs --tables updates {', '.join(old)} from the code"
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = stage_pages()
    index = next(page.text for page in pages if page.path == "index.md")
    sections = read_navigation(index, pages)
    write_config(sections)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=STAGE, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        return _ANSI.sub("", done.stdout + done.stderr.partition("Traceback")[0])
    built = STAGE / "built"
    (built / "llms.txt").write_text(make_llms_txt(_SUMMARY, sections, pages), "utf-8")
    (built / "llms-full.txt").write_text(make_full_text(sections, pages), "utf-8")
    for page in pages:
        (built / page.path).write_text(page.text, "utf-8")
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(built, SITE)
    return ""


def stage_pages() -> list[Page]:
    """Write the pages and pictures to the staging folder; returns the pages as the site shows them."""
    repository = find_repository()
    pages = [Page(page.path, page.source, with_site_links(page, repository)) for page in read_pages()]
    seen: set[str] = set()
    for page in sorted(pages, key=lambda page: (page.path != "api/index.md", page.path)):
        target = STAGE / "docs" / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_docstrings(with_stacked_tables(show_diagrams(page.text)), seen), "utf-8")
    for source in find_undrawn(pages):
        print(
            f"{source} has a diagram that is shown as text: draw it with scripts/docs --diagrams",
            file=sys.stderr,
        )
    for picture in (path for kind in ("png", "svg") for path in DOCS.glob(f"**/*.{kind}")):
        shutil.copy(picture, STAGE / "docs" / picture.relative_to(DOCS))
    shutil.copytree(_OWN / "assets", STAGE / "docs" / "assets")
    return pages


def write_config(sections: list[Section]) -> None:
    home = '{ "Home" = "index.md" }'
    entries = [home, *(_in_toml(section) for section in sections)]
    text = (_OWN / "zensical.toml").read_text("utf-8")
    navigation = "nav = [\n" + "".join(f"  {entry},\n" for entry in entries) + "]"
    text = re.sub(r"^nav = \[\]$", lambda _: navigation, text, flags=re.MULTILINE)
    if repository := find_repository():
        text = text.replace("[project]\n", f"[project]\nrepo_url = {json.dumps(repository)}\n", 1)
    (STAGE / "zensical.toml").write_text(text, "utf-8")


def _in_toml(section: Section) -> str:
    """TOML's basic strings are written as JSON's."""
    entries = [f"{{ {json.dumps(title)} = {json.dumps(path)} }}" for title, path in section.entries]
    entries += map(_in_toml, section.groups)
    return f"{{ {json.dumps(section.title)} = [{', '.join(entries)}] }}"


if __name__ == "__main__":
    sys.exit(main())
