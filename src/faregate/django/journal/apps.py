"""The app's name, and the label of its table."""

from django.apps import AppConfig


class JournalConfig(AppConfig):
    name = "faregate.django.journal"
    label = "faregate_journal"
    verbose_name = "faregate"
