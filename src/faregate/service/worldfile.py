"""A world from TOML. Faults are sentences that name the file and the place."""

import tomllib

from pydantic import ValidationError

from faregate.errors import ConfigurationError
from faregate.service.config import World


def read_world(text: str, name: str) -> World:
    """The world in this TOML text, or `ConfigurationError`."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from None
    try:
        return World.model_validate(found)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_sentences(error, name))) from None


def _sentences(error: ValidationError, name: str) -> list[str]:
    return [
        f"{name}: {_place(fault['loc'])}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors(include_url=False, include_input=False)
    ]


def _place(location: tuple[int | str, ...]) -> str:
    """`("resources", 0, "key")` is `resources[0].key`."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.lstrip(".") or "the file"
