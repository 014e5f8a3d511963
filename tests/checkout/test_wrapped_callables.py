"""A decorated function is found again, however it was decorated."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import wrapt
from starlette._utils import is_async_callable
from werkzeug.local import LocalProxy

from faregate.checkout.handlers import inspect_handler, mark
from faregate.checkout.wrapped_callables import is_async, mark_as_coroutine_function, walk, walk_chain
from faregate.offers import offer


def sought() -> str:
    return "found"


def with_wraps(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


def without_wraps(function: Any) -> Any:
    def inner() -> Any:
        return function()

    return inner


def with_default(function: Any) -> Any:
    def inner(function: Any = function) -> Any:
        return function()

    return inner


def with_keyword_default(function: Any) -> Any:
    def inner(*, function: Any = function) -> Any:
        return function()

    return inner


def with_list(function: Any) -> Any:
    functions = [function]

    def inner() -> Any:
        return functions[0]()

    return inner


class Caller:
    """A decorator that is a class."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self) -> Any:
        return self.function()

    def method(self) -> Any:
        return self.function()


def apply(function: Any) -> Any:
    return function()


DECORATORS: dict[str, Callable[[Any], Any]] = {
    "wraps": with_wraps,
    "no wraps": without_wraps,
    "default": with_default,
    "keyword default": with_keyword_default,
    "list": with_list,
    "class": Caller,
    "partial": functools.partial,
    "argument of a partial": lambda function: functools.partial(apply, function),
    "named argument of a partial": lambda function: functools.partial(apply, function=function),
    "lru_cache": functools.lru_cache,
    "two": lambda function: with_wraps(without_wraps(function)),
}


@pytest.mark.parametrize("decorate", DECORATORS.values(), ids=DECORATORS)
def test_what_is_decorated_is_found(decorate: Callable[[Any], Any]) -> None:
    decorated = decorate(sought)
    assert decorated() == "found"
    found = list(walk(decorated))
    assert (found[0], sought in found) == (decorated, True)


def test_the_function_of_a_bound_method_is_found() -> None:
    assert Caller.method in list(walk(Caller(sought).method))


def test_what_a_function_speaks_of_is_not_wrapped_by_it() -> None:
    def report() -> str:
        return "dear"

    def teaser() -> str:
        return report()[:1]

    decorated = without_wraps(report)
    assert report not in list(walk(teaser))
    assert report in list(walk(decorated))


def test_what_calls_itself_and_what_has_no_value_yet() -> None:
    def recursive() -> Any:
        return recursive, later

    assert list(walk(recursive)) == [recursive]
    later = 1


def test_a_proxy_of_what_is_not_there_is_passed_by() -> None:
    def missing() -> Any:
        raise AssertionError("asked for")

    proxy: Any = LocalProxy(missing)
    found = sought

    def view() -> Any:
        return proxy, found

    assert found in list(walk(view))


@wrapt.decorator
def traced(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


@pytest.mark.parametrize("follow", [walk, walk_chain])
@pytest.mark.parametrize("wrap", [traced, wrapt.CallableObjectProxy])
def test_a_wrapper_of_wrapt_is_looked_into(wrap: Any, follow: Any) -> None:
    wrapper: Any = wrap(wrap(sought))
    assert list(follow(wrapper)) == [sought]
    assert sought in list(follow(without_wraps(wrapper)))
    assert sought in list(follow(functools.partial(wrapper, 1)))


def test_a_price_in_a_wrapper_of_wrapt_is_found() -> None:
    def report() -> str:
        return "dear"

    sold = offer("daily_report")
    mark(report, sought, sold)
    assert inspect_handler(traced(report)).offers == (sold,)


@pytest.mark.parametrize("follow", [walk, walk_chain])
def test_another_proxy_is_not_asked(follow: Any) -> None:
    for proxy in (wrapt.LazyObjectProxy(lambda: sought), wrapt.ObjectProxy(sought)):
        assert sought not in list(follow(proxy))


async def awaited() -> str:
    return "found"


def test_a_function_that_returns_a_coroutine_counts_as_async_and_runs_at_the_call() -> None:
    calls = []

    def plain(self: Any) -> Any:
        calls.append(self)
        return awaited()

    begin = mark_as_coroutine_function(plain)
    bound = MethodType(begin, "a view")
    for one in (begin, bound, functools.partial(begin, "a view")):
        assert inspect.iscoroutinefunction(one)
        assert is_async(one)
    assert is_async_callable(begin)  # Starlette's, which decides about a thread
    begun = bound()
    assert calls == ["a view"]
    assert asyncio.run(begun) == "found"


def test_a_plain_wrapper_of_such_a_function_is_plain() -> None:
    """Starlette runs it in a thread, where it may block."""

    def plain() -> Any:
        return awaited()

    begin = mark_as_coroutine_function(plain)
    assert inspect.iscoroutinefunction(begin)
    assert not inspect.iscoroutinefunction(with_wraps(begin))
    assert not is_async_callable(with_wraps(begin))
