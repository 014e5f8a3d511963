"""Fixtures for a seller's own tests; pytest finds them by itself once faregate is installed.

`faregate_emulator`       the merchant service, a fresh world for each test; apps that sell with
                          `FAREGATE_BASE_URL=emulator:`, or say nothing, sell with it while the test runs
`faregate_paywall`        a `Paywall` over it, with a journal in memory, for apps that are given theirs
`faregate_payer`          pays through a blocking test client
`faregate_async_payer`    pays through an awaiting one, under asyncio or trio
`faregate_emulator_url`   the same world over HTTP, for other programs; `faregate_emulator_key` opens it
`faregate_emulator_world` what is sold there: override it to sell something else

Each has a short name too, without `faregate_`. Fixtures build on the long names only: a fixture of the
seller's own with a short name takes the place of that alias and breaks nothing else.

`@pytest.mark.faregate(clock="frozen", seed=7, strict=True, invariants=True)` is for one test; the ini
options `faregate_clock`, `faregate_strict` and `faregate_invariants` are for all. `faregate_base_url` is
put in the environment before any test module, or the app in it, is imported.

Nothing is loaded before a test asks for it.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from faregate.emulator.emulator import Emulator
    from faregate.paywall import Paywall
    from faregate.service.config import World
    from faregate.testing import AsyncPayer, Payer, Till
    from faregate.testing.options import Wishes
    from faregate.testing.server import Server

_MARK = "faregate"
_endings = pytest.StashKey[list[Callable[[], None]]]()
_name = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("faregate_base_url", "FAREGATE_BASE_URL for the whole run, such as emulator:", default="")
    parser.addini("faregate_clock", "the emulator's clock: real or frozen", default="real")
    parser.addini("faregate_strict", "every call to the emulator must be expected", "bool", default=False)
    parser.addini("faregate_invariants", "check the invariants after each test", "bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Apps may be made where a conftest imports them."""
    address: str = early_config.getini("faregate_base_url")
    if address:
        environment = pytest.MonkeyPatch()
        environment.setenv("FAREGATE_BASE_URL", address)
        early_config.add_cleanup(environment.undo)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARK}(clock, seed, strict, invariants): what this test wishes of its emulator"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """What is found wrong when a test is over fails the test, not its teardown."""
    result = yield
    for end in item.stash.get(_endings, ()):
        try:
            end()
        except AssertionError as found:
            pytest.fail(str(found), pytrace=False)
    return result


@pytest.fixture
def faregate_emulator_world(emulator_world: object) -> "World":
    """What the emulator of each test sells: the built-in world. Override it with your own."""
    from faregate.service.builtin import builtin_world
    from faregate.service.config import World

    return emulator_world if isinstance(emulator_world, World) else builtin_world()


@pytest.fixture
def faregate_emulator(
    request: pytest.FixtureRequest, faregate_emulator_world: "World"
) -> "Generator[Emulator]":
    """The merchant service, in this process: a fresh world."""
    from faregate.testing.emulator import plugged
    from faregate.testing.server import world_name

    test, wishes = _test(request), _wishes(request)
    name = test.stash[_name] = world_name(test.name)
    made = wishes.emulator(faregate_emulator_world, name)
    test.stash[_endings] = [lambda: made.assert_expected(strict=wishes.strict)]
    with plugged(made):
        yield made


@pytest.fixture
def faregate_emulator_key(request: pytest.FixtureRequest, faregate_emulator: "Emulator") -> str:
    """The API key of this test's world, over HTTP."""
    from faregate.service.builtin import keys_of

    return keys_of(_test(request).stash[_name])[0].key


@pytest.fixture
def faregate_emulator_url(
    request: pytest.FixtureRequest, faregate_emulator: "Emulator", _faregate_server: "Server"
) -> Generator[str]:
    """Where this test's world is served; one server for all tests of the process."""
    with _faregate_server.showing(_test(request).stash[_name], faregate_emulator) as url:
        yield url


@pytest.fixture(scope="session")
def _faregate_server() -> "Generator[Server]":
    from faregate.testing.server import serving

    with serving() as server:
        yield server


@pytest.fixture
def faregate_paywall(faregate_emulator: "Emulator") -> "Generator[Paywall]":
    """For every door: `PaywallMiddleware(app, paywall)`, `Faregate().init_app(app, paywall)`."""
    from faregate.emulator.transports import EmbeddedTransport
    from faregate.paywall import Paywall

    made = Paywall(
        base_url="emulator:",
        public_url="https://seller.example",
        transport=EmbeddedTransport(faregate_emulator),
        environ={},
    )
    yield made
    made.close()


@pytest.fixture
def faregate_payer(_faregate_till: "Till") -> "Payer":
    """Somebody whom nobody has seen yet, with money; `payer("slow")` is a test payer."""
    from faregate.testing.payers import Payer

    return Payer(_faregate_till)


@pytest.fixture
def faregate_async_payer(_faregate_till: "Till") -> "AsyncPayer":
    """`faregate_payer`, awaiting. Both keep their answers together."""
    from faregate.testing.payers import AsyncPayer

    return AsyncPayer(_faregate_till)


@pytest.fixture
def _faregate_till(request: pytest.FixtureRequest, faregate_emulator: "Emulator") -> "Till":
    from faregate.testing.session import Till

    till = Till(faregate_emulator)
    if _wishes(request).invariants:
        _test(request).stash[_endings].append(till.check)
    return till


# The short names. Nothing above builds on them but `faregate_emulator_world`, which takes only a `World`.


@pytest.fixture(scope="session")
def emulator_world() -> "World":
    """The built-in world; overriding this one has the effect of overriding `faregate_emulator_world`."""
    from faregate.service.builtin import builtin_world

    return builtin_world()


@pytest.fixture
def emulator(faregate_emulator: "Emulator") -> "Emulator":
    """Short for `faregate_emulator`."""
    return faregate_emulator


@pytest.fixture
def emulator_key(faregate_emulator_key: str) -> str:
    """Short for `faregate_emulator_key`."""
    return faregate_emulator_key


@pytest.fixture
def emulator_url(faregate_emulator_url: str) -> str:
    """Short for `faregate_emulator_url`."""
    return faregate_emulator_url


@pytest.fixture
def paywall(faregate_paywall: "Paywall") -> "Paywall":
    """Short for `faregate_paywall`."""
    return faregate_paywall


@pytest.fixture
def payer(faregate_payer: "Payer") -> "Payer":
    """Short for `faregate_payer`."""
    return faregate_payer


@pytest.fixture
def async_payer(faregate_async_payer: "AsyncPayer") -> "AsyncPayer":
    """Short for `faregate_async_payer`."""
    return faregate_async_payer


def _test(request: pytest.FixtureRequest) -> pytest.Item:
    """Which test asks; pytest says no type for it before 9.2."""
    return cast(pytest.Item, cast(Any, request).node)


def _wishes(request: pytest.FixtureRequest) -> "Wishes":
    from faregate.testing.options import Wishes

    names = ("clock", "strict", "invariants")
    configured = {name: request.config.getini(f"faregate_{name}") for name in names}
    marks = reversed(list(_test(request).iter_markers(_MARK)))
    return Wishes.of(configured, *(mark.kwargs for mark in marks))
