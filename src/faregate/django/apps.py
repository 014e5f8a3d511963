"""The Django app: its checks, and a new paywall when a test changes the settings."""

from django.apps import AppConfig
from django.core.signals import setting_changed


class FaregateConfig(AppConfig):
    name = "faregate.django"
    label = "faregate"
    verbose_name = "faregate"

    def ready(self) -> None:
        # Imported here: Django imports this module before it has loaded any app.
        from faregate.django import checks, conf

        checks.register_all()
        setting_changed.connect(conf.reset)
