"""A fresh virtual environment with exactly what a requirement brings, made from what is installed here.

Nothing is downloaded: the packages of this environment are linked into the other one.
"""

import sys
import sysconfig
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def brought_by(*requirements: str) -> set[str]:
    """The distributions that these requirements install, by name; raises `PackageNotFoundError`."""
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        one = left.pop()
        name, extras = canonicalize_name(one.name), frozenset(one.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        for needed in map(Requirement, distribution(name).requires or ()):
            chosen = ("", *extras)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in chosen):
                left.append(needed)
    return found


def link_packages(environment: Path, names: set[str]) -> None:
    """Put these distributions into a virtual environment, with their commands."""
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in sorted(names):
        one = distribution(name)
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(sysconfig.get_path("purelib")) / top)
        _write_commands(environment, one)


def _write_commands(environment: Path, one: Distribution) -> None:
    for command in one.entry_points.select(group="console_scripts"):
        script = environment / "bin" / command.name
        script.write_text(
            f"#!{environment}/bin/python\n"
            f"import sys\nfrom {command.module} import {command.attr}\nsys.exit({command.attr}())\n"
        )
        script.chmod(0o755)
