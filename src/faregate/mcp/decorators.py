"""A price on a tool."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import Parameter, Signature, isclass, signature
from typing import Annotated, Any, TypeVar, Unpack, cast, get_args, get_origin

import anyio.to_thread
from mcp_types import InputRequiredResult

from faregate.core.models import Offer
from faregate.core.usage import Payment
from faregate.errors import ConfigurationError
from faregate.mcp.calls import STOPPED, find_call
from faregate.middleware.callables import is_async
from faregate.middleware.checkout import SkipHandler
from faregate.middleware.handlers import inspect_handler, mark, mark_maker
from faregate.offers import OfferOptions, offer

Tool = TypeVar("Tool", bound=Callable[..., Any])


def paid(sells: str, **limits: Unpack[OfferOptions]) -> Callable[[Tool], Tool]:
    """Sell what a tool returns. It goes below `@server.tool()`, next to the function.

    `sells` is an integration key or an `acr_` revision id. A parameter annotated with `Payment` is given the
    payment and is no argument of the tool. Arguments are validated, and questions of `Resolve` are asked,
    before the price. Raises `ConfigurationError`, here or on the first call.
    """
    if not isinstance(cast(Any, sells), str):
        raise ConfigurationError("paid takes what is sold, not a function. Write @paid('text_summary').")
    if "billable" in limits:
        raise ConfigurationError("A tool has no statuses: leave billable out. A result with isError is free.")
    sold = offer(sells, **limits)

    def decorate(tool: Tool) -> Tool:
        declared = _check_tool(tool, sold)
        names = [name for name, one in declared.parameters.items() if _is_payment(one)]
        run = _make_run(tool)

        @wraps(tool)
        async def guard(*args: Any, **kwargs: Any) -> Any:
            call = find_call(sold)
            try:
                payment = await call.authorize(sold)
            except SkipHandler:
                return STOPPED  # the client never gets this result: the paywall sends its own instead
            result = await run(*args, **kwargs, **dict.fromkeys(names, payment))
            call.check_deadline()
            return result

        if names:
            _hide(guard, declared, names)
        mark(guard, tool, sold)
        return cast(Tool, guard)

    return decorate


mark_maker(paid)


def _check_tool(tool: Any, sold: Offer) -> Signature:
    """Return the signature of a tool. Raises `ConfigurationError`."""
    if isinstance(tool, staticmethod | classmethod):
        raise ConfigurationError(f"Put @{type(cast(Any, tool)).__name__} above @paid.")
    if isclass(tool) or not callable(tool):
        raise ConfigurationError(f"@paid is for the function of a tool, and {tool!r} is none.")
    others = [other.sells for other in inspect_handler(tool).offers]
    if others:
        raise ConfigurationError(f"A tool sells {sold.sells!r} and {others[0]!r}. Keep one offer.")
    try:
        declared = signature(tool, eval_str=True)
    except NameError as error:
        raise ConfigurationError(f"The annotations of a paid tool cannot be read: {error}.") from error
    if _mentions(declared.return_annotation, InputRequiredResult):
        raise ConfigurationError(
            "A paid tool cannot return InputRequiredResult: it would be asked again with a payment that is "
            "used. Ask before the price, with parameters annotated with Resolve(...)."
        )
    return declared


def _make_run(tool: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    # As the SDK does: a function that is not async runs on a thread.
    return tool if is_async(tool) else lambda *args, **kwargs: _run_on_thread(partial(tool, *args, **kwargs))


async def _run_on_thread(run: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(run)


def _is_payment(parameter: Parameter) -> bool:
    return _mentions(parameter.annotation, Payment)


def _mentions(annotation: Any, wanted: type) -> bool:
    if get_origin(annotation) is Annotated:
        return _mentions(get_args(annotation)[0], wanted)
    inner = getattr(annotation, "__value__", None)  # of a type alias
    if inner is not None:
        return _mentions(inner, wanted)
    return annotation is wanted or any(_mentions(one, wanted) for one in get_args(annotation))


def _hide(guard: Any, declared: Signature, names: list[str]) -> None:
    """Take parameters out of what the SDK makes the tool's schema of."""
    kept = [one for one in declared.parameters.values() if one.name not in names]
    guard.__signature__ = declared.replace(parameters=kept)
    hints = {one.name: one.annotation for one in kept if one.annotation is not Parameter.empty}
    if declared.return_annotation is not Signature.empty:
        hints["return"] = declared.return_annotation
    guard.__annotations__ = hints
