"""The project's settings. The service is named in the environment: FAREGATE_BASE_URL, FAREGATE_API_KEY."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("SHOP_FOLDER", Path(__file__).parents[1]))

SECRET_KEY = os.environ.get("SHOP_SECRET", "only for trying things out")
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["faregate.django", "faregate.django.journal"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "faregate.django.PaywallMiddleware",  # the last one: nothing sees a result before it is paid for
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
FAREGATE = {"JOURNAL": "django:"}  # in the database, for all workers
