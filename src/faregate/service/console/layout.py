"""What all pages share: the frame with its sections, who looks, and how long something takes in words."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from faregate.pages import render
from faregate.rules.account import Capability
from faregate.x402.tokens import Environment

ROOT: Final = "/console"
_EXPLORERS: Final[dict[Environment, str]] = {
    "test": "https://sepolia.basescan.org",
    "live": "https://basescan.org",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A page of the navigation, and what a key needs to see it."""

    title: str
    path: str
    capability: Capability


SECTIONS: Final = (
    Section("Overview", ROOT, "transactions:read"),
    Section("Payments", f"{ROOT}/payments", "transactions:read"),
    Section("Payers", f"{ROOT}/payers", "payers:read"),
    Section("Resources", f"{ROOT}/resources", "resources:read"),
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: the account, its environment, and what the key may see."""

    seller: str
    environment: Environment
    is_simulated: bool
    capabilities: frozenset[Capability]

    @property
    def explorer(self) -> str | None:
        """The address of the chain's explorer; None for a simulated ledger."""
        return None if self.is_simulated else _EXPLORERS[self.environment]


def render_page(viewer: Viewer, template: str, path: str, title: str, **values: object) -> bytes:
    """Render a page of a session. `path` is that of its section."""
    return render_document(template, title, viewer=viewer, path=path, sections=SECTIONS, **values)


def render_document(template: str, title: str, **values: object) -> bytes:
    """Render a template of `pages/templates/service`."""
    return render(f"service/{template}", title=title, root=ROOT, **values).encode()


def describe_time_span(span: timedelta) -> str:
    """Write how long something takes, in its two largest units."""
    seconds = max(0, int(span.total_seconds()))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count or (name == "s" and not parts):
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])
