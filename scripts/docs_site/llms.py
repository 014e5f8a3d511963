"""`llms.txt` and `llms-full.txt`: the pages for programs that read text. See https://llmstxt.org."""

from docs_site.navigation import Section
from docs_site.pages import Page, title_of


def make_llms_txt(summary: str, sections: list[Section], pages: list[Page]) -> str:
    """The list of pages, as Markdown; each is also served as Markdown, under the path given here."""
    texts = {page.path: page.text for page in pages}
    lines = ["# faregate", "", f"> {summary}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for title, path in section.pages:
            about = _first_sentence(texts[path])
            lines.append(f"- [{title}]({path})" + (f": {about}" if about else ""))
        lines.append("")
    return "\n".join(lines)


def make_full_text(sections: list[Section], pages: list[Page]) -> str:
    """All pages in the order of the navigation."""
    texts = {page.path: page.text.strip() for page in pages}
    order = ["index.md", *(path for section in sections for _, path in section.pages)]
    return "\n\n---\n\n".join(f"<!-- {path} -->\n{texts[path]}" for path in order) + "\n"


def _first_sentence(text: str) -> str:
    """The first sentence of the first paragraph, in one line; empty if the page starts otherwise."""
    for block in text.split("\n\n"):
        line = " ".join(block.split())
        if line and line[0] not in "#<`|*-!:" and not line.startswith(title_of(text) or "\0"):
            return line.partition(". ")[0].rstrip(".:") + "."
    return ""
