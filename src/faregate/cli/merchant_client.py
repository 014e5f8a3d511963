"""Open the client with which a command reads the merchant service, and say what an error asks of its user."""

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pydantic import ValidationError

from faregate.errors import (
    ApiError,
    BadAnswer,
    CommandError,
    ConfigurationError,
    FaregateError,
    Forbidden,
    NoAnswer,
    TransactionNotFound,
    Unauthenticated,
)
from faregate.merchant.api_key import ApiKey
from faregate.merchant.client import MerchantClient
from faregate.merchant.sender import BaseURL
from faregate.paywall import Paywall
from faregate.reports.reader import PatientClient
from faregate.settings import EMULATOR, IN_PROCESS, SERVICE, load_service, read_client_settings


def open_client_from_environ(_arguments: object) -> AbstractContextManager[MerchantClient]:
    """The client of the environment's settings. Raises `ConfigurationError`."""
    return open_client(*read_client_settings(os.environ))


def open_client_of(paywall: Paywall) -> AbstractContextManager[MerchantClient]:
    """The client of the service that a paywall sells with. Raises `ConfigurationError`."""
    settings = paywall.settings
    return open_client(settings.api_key, settings.base_url, settings.timeout)


@contextmanager
def open_client(api_key: ApiKey, base_url: str, timeout: float) -> Generator[MerchantClient]:
    """A client for one command. What goes wrong at the service while it is open is said with a remedy."""
    if base_url == EMULATOR:
        raise ConfigurationError(
            f"FAREGATE_BASE_URL is {EMULATOR}, a service that lives inside one process and ends with it. Run "
            "`faregate emulator` and set FAREGATE_BASE_URL to its address."
        )
    transport: Any = None
    if base_url == SERVICE:
        service = load_service("FAREGATE_BASE_URL")
        transport, base_url = service.open_reader(api_key.environment, os.environ), IN_PROCESS[SERVICE]
    BaseURL(base_url, api_key.environment, "FAREGATE_BASE_URL")
    with PatientClient(api_key, base_url, timeout=timeout, transport=transport) as client:
        try:
            yield client
        except FaregateError as error:
            describe = _describe_in_process if base_url == IN_PROCESS[SERVICE] else _describe
            raise ConfigurationError(describe(error, base_url)) from None
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(map(str, fault["loc"])).replace("_", "-")
            raise CommandError(f"--{name}: {fault['msg']}.") from None


def _describe_in_process(error: FaregateError, base_url: str) -> str:
    """Name the database and the environment: there is no key, and no address to ask at."""
    match error:
        case TransactionNotFound():
            return (
                "The database has no such transaction in this environment. Check the id, "
                "FAREGATE_ENVIRONMENT, and FAREGATE_SERVICE_DATABASE."
            )
        case NoAnswer():
            return f"{_shorten(error)}. Check FAREGATE_SERVICE_DATABASE."
        case ApiError(status=status) if status >= 500:
            return f"The service in this process failed ({_shorten(error)}). Try again later."
        case _:
            return _describe(error, base_url)


def _describe(error: FaregateError, base_url: str) -> str:
    match error:
        case Unauthenticated():
            return (
                f"{base_url} does not know this API key (401). Set FAREGATE_API_KEY to a private key of your "
                "account there, and FAREGATE_BASE_URL to the service that the key belongs to."
            )
        case Forbidden():
            return (
                f"This API key may not read that (403: {error.message}). Set FAREGATE_API_KEY to a key that "
                "has this capability."
            )
        case TransactionNotFound():
            return (
                "The service knows no such transaction for this API key. Check the id, and that "
                "FAREGATE_API_KEY belongs to the environment, test or live, that the transaction is in."
            )
        case ApiError(status=404) | BadAnswer():
            return (
                f"What answers at {base_url} is not the Merchant API ({_shorten(error)}). Set "
                "FAREGATE_BASE_URL to its address, without /merchant/v1."
            )
        case NoAnswer():
            return (
                f"No answer from {base_url} ({_shorten(error)}). Check FAREGATE_BASE_URL, and that the "
                "service is running; FAREGATE_TIMEOUT is how many seconds a call may take."
            )
        case ApiError(status=status) if status >= 500:
            return f"The service at {base_url} failed ({_shorten(error)}). Try again later."
        case _:
            return str(error)


def _shorten(error: FaregateError) -> str:
    """The reason alone: a transport's message begins with the call and its URL."""
    return str(error).partition(": no answer: ")[2] or str(error)
