"""The Django app: its checks, the refusal to serve without the paywall, and a new paywall in tests."""

import sys

from django.apps import AppConfig
from django.core.signals import request_started, setting_changed

# They are imported by what starts a server, and not by most commands, which have to work without a paywall.
_SERVING = ("django.core.wsgi", "django.core.asgi")


class FaregateConfig(AppConfig):
    name = "faregate.django"
    label = "faregate"
    verbose_name = "faregate"

    def ready(self) -> None:
        # Imported here: Django imports this module before it has loaded any app.
        from faregate.django import checks, conf, middleware_mistakes

        checks.register_all()
        setting_changed.connect(conf.reset)
        # A server that is started in another way, such as `runserver --skip-checks`, fails on each request.
        request_started.connect(middleware_mistakes.require_paywall)
        if any(name in sys.modules for name in _SERVING):
            middleware_mistakes.check_served()
