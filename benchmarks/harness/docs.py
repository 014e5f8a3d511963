"""Write the figures of a run into the pages that have them, between their markers, and the plots."""

import re
from collections.abc import Callable

from harness.charts import build_charts
from harness.contestants import CASES
from harness.processes import HERE
from harness.results import Results
from harness.tables import (
    build_case_table,
    build_failures,
    build_import_table,
    build_large_table,
    build_memory_table,
    build_target_table,
)

DOCS = HERE.parent / "docs"
PAGES = (DOCS / "performance.md", DOCS / "contributing" / "figures.md")
_SECTION = re.compile(r"(<!-- results: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_docs(results: Results) -> None:
    """Replace each section for which there are figures; the text around it, and the others, stay.

    A run of some cases says at each when it was made, and leaves the table of all targets.
    """
    sections = _build_sections(results)

    def replace(found: re.Match[str]) -> str:
        text = sections.get(found["name"], "")
        return f"{found[1]}\n{text}\n\n{found[3]}" if text else found[0]

    for page in PAGES:
        page.write_text(_SECTION.sub(replace, page.read_text()))
    for name, drawing in build_charts(results).items():
        (DOCS / name).write_text(drawing)


def _build_sections(results: Results) -> dict[str, str]:
    others: dict[str, Callable[[Results], str]] = {}
    if results.large:
        others["large"] = build_large_table
    if results.memory:
        others["memory"] = build_memory_table
    if results.imports:
        others["imports"] = build_import_table
    sections = {name: build(results) for name, build in others.items()}
    is_whole = all(case.name in results.cases for case in CASES)
    if is_whole:
        sections["targets"] = build_target_table(results)
        sections["run"] = _describe_run(results)
    for case in CASES:
        if case.name in results.cases:
            table = build_case_table(results, case)
            sections[case.name] = table if is_whole else f"{_describe_run(results)}\n\n{table}"
    return sections


def _describe_run(results: Results) -> str:
    machine = results.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    text = (
        f"Measured on {results.at[:10]}: {results.rounds} rounds of {results.seconds:g} seconds on"
        f" {machine['cores']} cores ({machine['architecture']}, Python {machine['python']}). {packages}."
    )
    return f"{text}\n\n{build_failures(results)}" if results.failures else text
