"""A price on a tool."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, isclass, signature
from typing import Annotated, Any, TypeVar, Unpack, cast, get_args, get_origin, overload

from mcp_types import InputRequiredResult

from faregate.core.models import BILLABLE, Choose, Offer
from faregate.core.usage import Payment
from faregate.errors import ConfigurationError
from faregate.mcp.calls import STOPPED, find_call
from faregate.mcp.choices import ask_with_arguments, check_tool_choose, make_async
from faregate.middleware.checkout import SkipHandler
from faregate.middleware.handlers import inspect_handler, mark, mark_maker
from faregate.offers import OfferOptions, make_offer

Tool = TypeVar("Tool", bound=Callable[..., Any])


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
    if "billable" in limits or any(one.billable != BILLABLE for one in sold.alternatives):
        raise ConfigurationError("A tool has no statuses: leave billable out. A result with isError is free.")

    def decorate(tool: Tool) -> Tool:
        declared = _check_tool(tool, sold)
        names = [name for name, one in declared.parameters.items() if _is_payment(one)]
        arguments = declared.replace(
            parameters=[one for one in declared.parameters.values() if one.name not in names]
        )
        check_tool_choose(sold, arguments)
        run = make_async(tool)

        @wraps(tool)
        async def guard(*args: Any, **kwargs: Any) -> Any:
            call = find_call(sold)
            try:
                payment = await call.authorize(sold, partial(ask_with_arguments, arguments, args, kwargs))
            except SkipHandler:
                return STOPPED  # the client never gets this result: the paywall sends its own instead
            result = await run(*args, **kwargs, **dict.fromkeys(names, payment))
            call.check_deadline()
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
        declared = signature(tool, eval_str=True)
    except NameError as error:
        raise ConfigurationError(f"The annotations of a paid tool cannot be read: {error}.") from error
    if _mentions(declared.return_annotation, InputRequiredResult):
        raise ConfigurationError(
            "A paid tool cannot return InputRequiredResult: it would be asked again with a payment that is "
            "used. Ask before the price, with parameters annotated with Resolve(...)."
        )
    return declared


def _is_payment(parameter: Parameter) -> bool:
    return _mentions(parameter.annotation, Payment)


def _mentions(annotation: Any, wanted: type) -> bool:
    if get_origin(annotation) is Annotated:
        return _mentions(get_args(annotation)[0], wanted)
    inner = getattr(annotation, "__value__", None)  # of a type alias
    if inner is not None:
        return _mentions(inner, wanted)
    return annotation is wanted or any(_mentions(one, wanted) for one in get_args(annotation))


def _hide(guard: Any, arguments: Signature) -> None:
    """Let the SDK make the tool's schema of these parameters only."""
    guard.__signature__ = arguments
    kept = arguments.parameters.values()
    hints = {one.name: one.annotation for one in kept if one.annotation is not Parameter.empty}
    if arguments.return_annotation is not Signature.empty:
        hints["return"] = arguments.return_annotation
    guard.__annotations__ = hints
