"""What paying needs, asked for first: the emulator's tokens are used too, and it would name its own extra."""

from importlib import import_module


def need_extra() -> None:
    """`ImportError` names the package that is not there, and the extra that brings it."""
    import_module("faregate.pay.official")
