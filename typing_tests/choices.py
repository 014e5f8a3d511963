"""What a type checker must refuse: a price without a name, and a choice without the names to choose from."""

from typing import Any, assert_type

from django.http import HttpRequest
from fastapi import Depends
from flask import Blueprint
from flask import Request as FlaskRequest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

import faregate.django
import faregate.fastapi
import faregate.flask
import faregate.mcp
import faregate.starlette
from faregate.core.models import Offer
from faregate.offers import offer

paywall = faregate.flask.Faregate()
AMONG = ("daily_report", offer("text_summary", max_work_seconds=60))


def choose(request: Any) -> str:
    return "daily_report"


async def choose_async(request: Request) -> str:
    return "daily_report"


def choose_in_django(request: HttpRequest) -> str:
    return "daily_report"


def choose_in_flask(request: FlaskRequest) -> str:
    return "daily_report"


def choose_tool(city: str) -> str:
    return "daily_report"


# Right


@faregate.starlette.paid(choose_async, among=AMONG, max_work_seconds=30)
async def endpoint(request: Request) -> PlainTextResponse:
    return PlainTextResponse("Sunny.")


@faregate.django.paid(choose_in_django, AMONG)
def view(request: HttpRequest) -> str:
    return "Sunny."


@paywall.paid(choose_in_flask, among=["daily_report", "text_summary"])
def flask_view() -> str:
    return "Sunny."


@faregate.mcp.paid(choose_tool, among=AMONG)
async def tool(city: str) -> str:
    return "Sunny."


def check_types(request: HttpRequest) -> None:
    assert_type(view(request), str)
    assert_type(flask_view(), str)


paywall.paid_all(Blueprint("reports", __name__), choose_in_flask, among=AMONG)
assert_type(offer(choose, among=AMONG), Offer)
assert_type(faregate.fastapi.paid(choose_async, among=AMONG), faregate.fastapi.RequirePayment)
faregate.django.paid_include(choose_in_django, "shop.urls", among=AMONG)


# Wrong: all of it fails at import, too


@faregate.starlette.paid  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
async def bare_endpoint(request: Request) -> PlainTextResponse:
    return PlainTextResponse("Sunny.")


@faregate.django.paid  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
def bare_view(request: HttpRequest) -> str:
    return "Sunny."


@paywall.paid  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
def bare_flask_view() -> str:
    return "Sunny."


@faregate.mcp.paid  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
def bare_tool() -> str:
    return "Sunny."


def misuse() -> None:
    faregate.starlette.paid(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    faregate.fastapi.paid(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    faregate.django.paid(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    faregate.mcp.paid(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    paywall.paid(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    offer(choose)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    offer("small", among=AMONG)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    paywall.paid(choose, amongst=AMONG)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    Depends(faregate.fastapi.paid(endpoint))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
