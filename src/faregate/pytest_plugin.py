"""Fixtures for a seller's own tests; pytest finds them once faregate is installed.

`faregate_emulator`       the merchant service, new for each test; apps with `FAREGATE_BASE_URL=emulator:`,
                          or without settings, use it while the test runs
`faregate_paywall`        a `Paywall` over it, with a journal in memory, for apps that take one as an argument
`faregate_payer`          pays through a blocking test client
`faregate_async_payer`    pays through an async one, under asyncio or trio
`faregate_emulator_url`   the same emulator over HTTP, for other programs, with `faregate_emulator_key`
`faregate_emulator_account` the products sold there: override it to sell others

Each has a short name too, without `faregate_`. Fixtures depend on the long names only, so a seller's own
fixture with a short name replaces that alias and breaks nothing else.

`@pytest.mark.faregate(clock="frozen", seed=7, strict=True, invariants=True)` configures one test; the ini
options `faregate_clock`, `faregate_strict` and `faregate_invariants` configure all. `faregate_base_url` is
put into the environment before any test module, or the app in it, is imported.

pytest imports this module in every project where faregate is installed, so each fixture imports what it
needs only when a test asks for it.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from faregate.emulator import Account, Emulator
    from faregate.paywall import Paywall
    from faregate.testing import AsyncPayer, Payer, PayerSession
    from faregate.testing.emulator import EmulatorOptions, SharedServer

_MARK = "faregate"
_final_checks = pytest.StashKey[list[Callable[[], None]]]()
_tenant_name = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("faregate_base_url", "FAREGATE_BASE_URL for the whole run, such as emulator:", default="")
    parser.addini("faregate_clock", "the emulator's clock: real or frozen", default="real")
    parser.addini("faregate_strict", "every call to the emulator must be expected", "bool", default=False)
    parser.addini("faregate_invariants", "check the invariants after each test", "bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set `FAREGATE_BASE_URL` first of all, because a conftest may import the app."""
    base_url: str = early_config.getini("faregate_base_url")
    if base_url:
        environment = pytest.MonkeyPatch()
        environment.setenv("FAREGATE_BASE_URL", base_url)
        early_config.add_cleanup(environment.undo)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARK}(clock, seed, strict, invariants): options of this test's emulator"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the final checks while the test can still fail."""
    # Not in a fixture's teardown, where a failure is reported as an error beside a passed test.
    result = yield
    for check in item.stash.get(_final_checks, ()):
        try:
            check()
        except AssertionError as error:
            pytest.fail(str(error), pytrace=False)
    return result


@pytest.fixture
def faregate_emulator_account(emulator_account: object) -> "Account":
    """The products sold by each test's emulator, by default the built-in ones. Override it with your own."""
    from faregate.emulator import Account, builtin_account

    return emulator_account if isinstance(emulator_account, Account) else builtin_account()


@pytest.fixture
def faregate_emulator(
    request: pytest.FixtureRequest, faregate_emulator_account: "Account"
) -> "Generator[Emulator]":
    """The merchant service, in this process and new for this test."""
    from faregate.testing.emulator import make_tenant_name, use_emulator

    test, options = _get_item(request), _get_options(request)
    name = test.stash[_tenant_name] = make_tenant_name(test.name)
    emulator = options.build_emulator(faregate_emulator_account, name)
    test.stash[_final_checks] = [lambda: emulator.assert_expected(strict=options.strict)]
    with use_emulator(emulator):
        yield emulator


@pytest.fixture
def faregate_emulator_key(request: pytest.FixtureRequest, faregate_emulator: "Emulator") -> str:
    """The API key of this test's emulator, over HTTP."""
    from faregate.testing.emulator import make_tenant_key

    return make_tenant_key(_get_item(request).stash[_tenant_name])


@pytest.fixture
def faregate_emulator_url(
    request: pytest.FixtureRequest, faregate_emulator: "Emulator", _faregate_server: "SharedServer"
) -> Generator[str]:
    """The URL of this test's emulator; one server serves all tests of the process."""
    with _faregate_server.serve_tenant(_get_item(request).stash[_tenant_name], faregate_emulator) as url:
        yield url


@pytest.fixture(scope="session")
def _faregate_server() -> "Generator[SharedServer]":
    from faregate.testing.emulator import start_server

    with start_server() as server:
        yield server


@pytest.fixture
def faregate_paywall(faregate_emulator: "Emulator") -> "Generator[Paywall]":
    """For any framework: `PaywallMiddleware(app, paywall)`, `Faregate().init_app(app, paywall)`."""
    from faregate.emulator.transports import EmbeddedTransport
    from faregate.paywall import Paywall

    paywall = Paywall(
        base_url="emulator:",
        public_url="https://seller.example",
        transport=EmbeddedTransport(faregate_emulator),
        environ={},
    )
    yield paywall
    paywall.close()


@pytest.fixture
def faregate_payer(_faregate_payers: "PayerSession") -> "Payer":
    """A payer unknown to the service, with money; `payer("slow")` is a test payer."""
    from faregate.testing.payers import Payer

    return Payer(_faregate_payers)


@pytest.fixture
def faregate_async_payer(_faregate_payers: "PayerSession") -> "AsyncPayer":
    """`faregate_payer` for async clients. Both collect their answers in one list."""
    from faregate.testing.payers import AsyncPayer

    return AsyncPayer(_faregate_payers)


@pytest.fixture
def _faregate_payers(request: pytest.FixtureRequest, faregate_emulator: "Emulator") -> "PayerSession":
    from faregate.testing.payers import PayerSession

    session = PayerSession(faregate_emulator)
    if _get_options(request).invariants:
        _get_item(request).stash[_final_checks].append(session.check)
    return session


# Short names. Nothing above depends on them but `faregate_emulator_account`: it ignores all but an `Account`.


@pytest.fixture(scope="session")
def emulator_account() -> "Account":
    """The built-in products; overriding this overrides `faregate_emulator_account` too."""
    from faregate.emulator import builtin_account

    return builtin_account()


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


def _get_item(request: pytest.FixtureRequest) -> pytest.Item:
    """Return the test that uses the fixture; `request.node` has no type before pytest 9.2."""
    return cast(pytest.Item, cast(Any, request).node)


def _get_options(request: pytest.FixtureRequest) -> "EmulatorOptions":
    from faregate.testing.emulator import EmulatorOptions

    names = ("clock", "strict", "invariants")
    configured = {name: request.config.getini(f"faregate_{name}") for name in names}
    # pytest yields the closest mark first, and the closest one must win.
    marks = reversed(list(_get_item(request).iter_markers(_MARK)))
    return EmulatorOptions.merge(configured, *(mark.kwargs for mark in marks))
