"""The WSGI stacks under attack, and Django on ASGI, built as the documentation advises."""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import cachelib
import flask
from flask_session import Session as ServerSideSession

from tests import django_site

django_site.ready()

from django.contrib import messages  # noqa: E402
from django.contrib.sessions.models import Session  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402
from faregate.flask import Faregate  # noqa: E402
from faregate.offers import offer  # noqa: E402
from faregate.paywall import Paywall  # noqa: E402
from faregate.wsgi import Environ, PaywallMiddleware, require_payment  # noqa: E402
from tests.adapters.django_views import PAYWALL, project  # noqa: E402
from tests.attacks.content import Content  # noqa: E402
from tests.attacks.site import Site  # noqa: E402
from tests.servers.http import serving, serving_wsgi  # noqa: E402

RESPONSE = frozenset(("body", "header", "cookie"))
SESSION = RESPONSE | {"session", "nested", "message"}


# Flask


def flask_site(paywall: Paywall, content: Content, *, stored: bool = False) -> flask.Flask:
    app = flask.Flask(__name__)
    app.secret_key = "a secret of sixteen or more"
    store = cachelib.SimpleCache()
    if stored:
        app.config.update(SESSION_TYPE="cachelib", SESSION_CACHELIB=store)
        ServerSideSession(app)
    faregate = Faregate()
    faregate.init_app(app, paywall)

    @app.get("/sold")
    @faregate.paid("daily_report")
    def sold() -> flask.Response:
        content.runs += 1
        flask.session["content"] = content.mark("session")
        flask.session.setdefault("known", []).append(content.mark("nested"))
        flask.session.modified = True
        flask.flash(content.mark("message"))
        then = flask.request.args.get("then", "200")
        if then == "raise":
            raise LookupError(content.mark("body"))
        response = flask.Response(content.mark("body"), int(then), {"X-Content": content.mark("header")})
        response.set_cookie("content", content.mark("cookie"))
        return response

    @app.get("/start")
    def start() -> str:
        flask.session["known"] = ["before"]
        return "started"

    @app.get("/me")
    def me() -> flask.Response:
        stores = str(store._cache) if "stores" in flask.request.args else ""
        return flask.jsonify(dict(flask.session), flask.get_flashed_messages(), stores)

    return app


# Django


@dataclass(frozen=True)
class DjangoProject:
    """The routes, and the paywall whose transport and use of identifiers go into the settings."""

    routes: list[Any]
    paywall: Paywall

    @property
    def settings(self) -> dict[str, Any]:
        use = self.paywall.settings.identifier_use.value
        return {"TRANSPORT": self.paywall._client._transport, "PAYMENT_IDENTIFIER": use or None}


def django_project(paywall: Paywall, content: Content) -> DjangoProject:
    return DjangoProject(django_routes(content), paywall)


def django_routes(content: Content) -> list[Any]:

    @paid("daily_report")
    def sold(request: Any) -> HttpResponse:
        content.runs += 1
        request.session["content"] = content.mark("session")
        request.session.setdefault("known", []).append(content.mark("nested"))
        request.session.save()
        request.state = content.mark("state")
        request.basket["things"].append(content.mark("mapping"))
        messages.info(request, content.mark("message"))
        then = request.GET.get("then", "200")
        if then == "raise":
            raise LookupError(content.mark("body"))
        headers = {"X-Content": content.mark("header")}
        response = HttpResponse(content.mark("body"), status=int(then), headers=headers)
        response.set_cookie("content", content.mark("cookie"))
        return response

    @paid("daily_report")
    async def asold(request: Any) -> HttpResponse:
        await request.session.aset("content", content.mark("session"))
        await request.session.asave()
        return sold.__wrapped__(request)  # type: ignore[attr-defined, no-any-return]

    def start(request: HttpRequest) -> HttpResponse:
        request.session["known"] = ["before"]
        return HttpResponse("started")

    def me(request: HttpRequest) -> JsonResponse:
        told = [str(one) for one in messages.get_messages(request)]
        stored = [one.get_decoded() for one in Session.objects.all()] if "stores" in request.GET else []
        return JsonResponse([dict(request.session.items()), told, stored], safe=False)

    return [path("sold", sold), path("asold", asold), path("start", start), path("me", me)]


class Telling:
    """Middleware outside that answers with what it finds in the request after the view."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        request.basket = {"things": []}
        response = self.get_response(request)
        response["X-State"] = str(getattr(request, "state", ""))
        response["X-Basket"] = json.dumps(request.basket)
        response.set_cookie("basket", "".join(request.basket["things"]))
        return response


MIDDLEWARE = [
    f"{__name__}.Telling",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    PAYWALL,
]


@contextmanager
def serving_django(awaiting: bool, site: DjangoProject, **settings: Any) -> Generator[str]:
    with project(*site.routes, MIDDLEWARE=MIDDLEWARE, FAREGATE=site.settings, **settings):
        Session.objects.all().delete()
        served: AbstractContextManager[str] = (
            serving(get_asgi_application(), lifespan="off")
            if awaiting
            else serving_wsgi(get_wsgi_application())
        )
        with served as url:
            yield url


def django_on(awaiting: bool, **settings: Any) -> Callable[[Any], AbstractContextManager[str]]:
    return lambda site: serving_django(awaiting, site, **settings)


# Plain WSGI, behind a session of its own


def plain_site(paywall: Paywall, content: Content) -> Any:
    sold = offer("daily_report")

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        then, headers = "200", [("Content-Type", "text/plain")]
        session, body = environ["session"], json.dumps(environ["session"])
        if environ["PATH_INFO"] == "/start":
            session["known"] = ["before"]
        if environ["PATH_INFO"] == "/sold":
            require_payment(environ, sold)
            content.runs += 1
            session["content"] = content.mark("session")
            session.setdefault("known", []).append(content.mark("nested"))
            environ["state"] = content.mark("state")
            then = parse_qs(environ["QUERY_STRING"]).get("then", ["200"])[0]
            body = content.mark("body")
            headers += [("X-Content", content.mark("header")), ("Set-Cookie", f"a={content.mark('cookie')}")]
        if then == "raise":
            raise LookupError(body)
        start_response(f"{then} Said", headers)
        return [body.encode()]

    return with_session(PaywallMiddleware(app, paywall))


def with_session(app: Any) -> Any:
    """A middleware that stores what it finds in the environ when the response begins."""
    stored: dict[str, str] = {}

    def middleware(environ: Environ, start_response: Any) -> Any:
        key = environ.get("HTTP_COOKIE", "").partition("session=")[2].partition(";")[0]
        session = environ["session"] = json.loads(stored.get(key, "{}"))

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            name = key or str(len(stored))
            stored[name] = json.dumps(session)
            state = ("X-State", environ.get("state", ""))
            return start_response(status, [*headers, state, ("Set-Cookie", f"session={name}")], *error)

        return app(environ, start)

    return middleware


def on_the_path(place: str) -> Callable[[Paywall, Content], DjangoProject]:
    """The same site, with another of its views in the place of the sold one."""

    def build(paywall: Paywall, content: Content) -> DjangoProject:
        site = django_project(paywall, content)
        views = {str(route.pattern): route.callback for route in site.routes}
        routes = [path("sold", views[place]), path("start", views["start"]), path("me", views["me"])]
        return DjangoProject(routes, paywall)

    return build


BACKENDS = "django.contrib.sessions.backends"
DJANGO = SESSION | {"state", "mapping"}
WSGI_SITES = [
    Site("flask", flask_site, SESSION, serving_wsgi),
    Site("flask-session", partial(flask_site, stored=True), SESSION, serving_wsgi),
    Site("django", django_project, DJANGO, django_on(awaiting=False)),
    Site("django-signed-cookies", django_project, DJANGO,
         django_on(awaiting=False, SESSION_ENGINE=f"{BACKENDS}.signed_cookies")),
    Site("django-asgi", on_the_path("asold"), DJANGO, django_on(awaiting=True)),
    Site("plain WSGI", plain_site, RESPONSE | {"session", "nested", "state"}, serving_wsgi),
]  # fmt: skip
