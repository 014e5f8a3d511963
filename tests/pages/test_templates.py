"""The templates: every value is escaped in all of them, and a value that is missing is an error."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from faregate import pages
from faregate.pages import render

FOLDER = Path(pages.__file__).parent / "templates"
TEMPLATES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*"))
HOSTILE = "<script>document.title='taken'</script>\"'&"


def read_template(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_escapes_less_than_all(name: str) -> None:
    """Escaping protects text and attributes in quotes, and nothing else."""
    text = read_template(name)
    assert re.findall(r"\|\s*safe|autoescape|Markup", text) == []
    text = re.sub(r"\{[%#].*?[%#]\}", "", re.sub(r"\{\{.*?\}\}", "VALUE", text))
    tags = (re.sub('"[^"]*"', "", tag) for tag in re.findall("<[^>]*>", text))
    assert [tag for tag in tags if "VALUE" in tag] == []
    assert re.findall(r"<script(?! type=\"module\" src=)|\son\w+=|\sstyle=|javascript:", text) == []


@pytest.mark.parametrize("name", [one for one in TEMPLATES if one.endswith(".html")])
def test_a_style_element_has_a_style_sheet_and_nothing_else(name: str) -> None:
    for css in re.findall(r"<style>(.*?)</style>", read_template(name), re.DOTALL):
        assert css == "{{ style }}"


def test_a_value_is_text_and_a_missing_one_an_error() -> None:
    environment = pages._load_environment()
    assert "<script" not in environment.from_string('<p title="{{ value }}">{{ value }}</p>').render(
        value=HOSTILE
    )
    with pytest.raises(UndefinedError):
        render("report.html")
