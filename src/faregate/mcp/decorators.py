"""A price on a tool, and the function that chooses it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, isclass, signature
from typing import Annotated, Any, TypeVar, Unpack, cast, get_args, get_origin, overload

import anyio.to_thread
from mcp_types import InputRequiredResult

from faregate.checkout.checkout import SkipHandler
from faregate.checkout.handlers import inspect_handler, mark, mark_maker
from faregate.checkout.wrapped_callables import is_async
from faregate.core.models import Choose, Offer, OfferChoice
from faregate.core.reported_values import Payment
from faregate.errors import ConfigurationError
from faregate.mcp.calls import QUESTION, STOPPED, find_call
from faregate.offers import OfferOptions, make_offer

Tool = TypeVar("Tool", bound=Callable[..., Any])

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@overload
def paid(sells: str, among: None = None, **limits: Unpack[OfferOptions]) -> Callable[[Tool], Tool]: ...
@overload
def paid(
    sells: Choose, among: Sequence[str | Offer], **limits: Unpack[OfferOptions]
) -> Callable[[Tool], Tool]: ...
def paid(
    sells: str | Choose, among: Sequence[str | Offer] | None = None, **limits: Unpack[OfferOptions]
) -> Callable[[Tool], Tool]:
    """Sell what a tool returns. It goes below `@server.tool()`, next to the function.

    `sells` is an integration key or an `acr_` revision id; or a function, plain or async, that returns one of
    the names in `among`, and gets those arguments of the tool that it has parameters for. A parameter
    annotated with `Payment` is given the payment and is no argument of the tool. Arguments are validated, and
    questions of `Resolve` are asked, before the price. Raises `ConfigurationError`, here or on the first
    call.
    """
    message = "paid takes the name of what is sold. Write @paid('text_summary')."
    sold = make_offer(sells, among, limits, message)
    if "billable" in limits or any(offer.billable is not None for offer in sold.alternatives):
        raise ConfigurationError("A tool has no statuses: leave billable out. A result with isError is free.")

    def decorate(tool: Tool) -> Tool:
        declared = _check_tool(tool, sold)
        names = [name for name, parameter in declared.parameters.items() if _is_payment(parameter)]
        arguments = declared.replace(
            parameters=[
                parameter for parameter in declared.parameters.values() if parameter.name not in names
            ]
        )
        _check_choose(sold, arguments)
        run = _make_async(tool)

        @wraps(tool)
        async def guard(*args: Any, **kwargs: Any) -> Any:
            call = find_call(sold)
            try:
                payment = await call.authorize(sold, partial(_ask_with_arguments, arguments, args, kwargs))
            except SkipHandler:
                return STOPPED  # the client never gets this result: the paywall sends its own instead
            result = await run(*args, **kwargs, **dict.fromkeys(names, payment))
            await call.check_end(result)
            return result

        if names:
            _hide(guard, arguments)
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
        # Evaluated: under `from __future__ import annotations`, Payment is a string.
        declared = signature(tool, eval_str=True)
    except NameError as error:
        raise ConfigurationError(f"The annotations of a paid tool cannot be read: {error}.") from error
    if _mentions(declared.return_annotation, InputRequiredResult):
        raise ConfigurationError(QUESTION)
    return declared


def _is_payment(parameter: Parameter) -> bool:
    return _mentions(parameter.annotation, Payment)


def _mentions(annotation: Any, wanted: type) -> bool:
    if get_origin(annotation) is Annotated:
        return _mentions(get_args(annotation)[0], wanted)
    inner = getattr(annotation, "__value__", None)  # of a type alias
    if inner is not None:
        return _mentions(inner, wanted)
    return annotation is wanted or any(_mentions(argument, wanted) for argument in get_args(annotation))


def _hide(guard: Any, arguments: Signature) -> None:
    """Let the SDK make the tool's schema of these parameters only."""
    guard.__signature__ = arguments
    kept = arguments.parameters.values()
    hints = {
        parameter.name: parameter.annotation
        for parameter in kept
        if parameter.annotation is not Parameter.empty
    }
    if arguments.return_annotation is not Signature.empty:
        hints["return"] = arguments.return_annotation
    guard.__annotations__ = hints


def _check_choose(sold: Offer, arguments: Signature) -> None:
    """Check that a function that chooses asks only for arguments of its tool. Raises `ConfigurationError`."""
    if not isinstance(sold, OfferChoice):
        return
    for parameter in _list_parameters(sold.choose):
        is_given = parameter.kind in _BY_NAME and parameter.name in arguments.parameters
        # Also one with a default: misspelt, it would choose the same offer for every call.
        if not is_given and parameter.kind not in _VARIADIC:
            raise ConfigurationError(
                f"The function that chooses {sold.sells} takes {parameter.name!r}, which it is not given. "
                f"It can take {', '.join(arguments.parameters) or 'none'}, by name."
            )


async def _ask_with_arguments(
    arguments: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], choose: Choose
) -> object:
    """Call `choose` with those arguments of a call of the tool that it has parameters for."""
    bound = arguments.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = _list_parameters(choose)
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    wanted = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
    named = {name: value for name, value in bound.arguments.items() if takes_all or name in wanted}
    return await _make_async(choose)(**named)


def _make_async(run: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function itself if it is async; else one that runs it on a thread, as the SDK does with tools."""
    if is_async(run):
        return run
    return lambda *args, **kwargs: anyio.to_thread.run_sync(partial(run, *args, **kwargs))


def _list_parameters(choose: Choose) -> tuple[Parameter, ...]:
    try:
        return tuple(signature(choose).parameters.values())
    except ValueError:  # a built-in function, which does not say what it takes
        raise ConfigurationError(
            f"{choose!r} does not say which arguments it takes: choose with a function of your own."
        ) from None
