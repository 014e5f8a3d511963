"""A Django project as small as Django lets it be. Its database is a file that goes with the process."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

SECRET_KEY = "only for tests"
ALLOWED_HOSTS = ["*"]
DEBUG = False
USE_TZ = True
ROOT_URLCONF = "tests.django_site.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "rest_framework",
    "faregate.django",
    "faregate.django.journal",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def make_folder() -> str:
    """Named in the environment: processes started by a test share it, those that share the tests do not."""
    name = f"TESTS_DJANGO_{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    folder = os.environ.get(name)
    if folder is None:
        folder = os.environ[name] = tempfile.mkdtemp(prefix="faregate-django-")
        atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, owner: int) -> None:
    """Not by a fork of the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(make_folder()) / "db.sqlite3",
        "OPTIONS": {"timeout": 20},
    },
    "second": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(make_folder()) / "second.sqlite3"},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
