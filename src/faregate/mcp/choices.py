"""Call the function that chooses the offer of a tool call with the arguments that it names."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any

import anyio.to_thread

from faregate.core.models import Choose, Offer, OfferChoice
from faregate.errors import ConfigurationError
from faregate.middleware.callables import is_async


def check_tool_choose(sold: Offer, arguments: Signature) -> None:
    """Check that a function that chooses asks only for arguments of its tool. Raises `ConfigurationError`."""
    if not isinstance(sold, OfferChoice):
        return
    for one in _list_parameters(sold.choose):
        is_given = one.kind in _BY_NAME and one.name in arguments.parameters
        # Also one with a default: misspelt, it would choose the same offer for every call.
        if not is_given and one.kind not in _VARIADIC:
            raise ConfigurationError(
                f"The function that chooses {sold.sells} takes {one.name!r}, which it is not given. "
                f"It can take {', '.join(arguments.parameters) or 'none'}, by name."
            )


async def ask_with_arguments(
    arguments: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], choose: Choose
) -> object:
    """Call `choose` with those arguments of a call of the tool that it has parameters for."""
    bound = arguments.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = _list_parameters(choose)
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    wanted = {one.name for one in parameters if one.kind in _BY_NAME}
    named = {name: value for name, value in bound.arguments.items() if takes_all or name in wanted}
    return await make_async(choose)(**named)


def make_async(run: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function itself if it is async; else one that runs it on a thread, as the SDK does with tools."""
    return run if is_async(run) else lambda *args, **kwargs: _run_on_thread(partial(run, *args, **kwargs))


async def _run_on_thread(run: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(run)


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _list_parameters(choose: Choose) -> tuple[Parameter, ...]:
    try:
        return tuple(signature(choose).parameters.values())
    except ValueError:  # a built-in function, which does not say what it takes
        raise ConfigurationError(
            f"{choose!r} does not say which arguments it takes: choose with a function of your own."
        ) from None
