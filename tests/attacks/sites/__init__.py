"""Every stack that the attacks run on."""

from tests.attacks.sites.asgi_sites import ASGI_SITES
from tests.attacks.sites.wsgi_sites import WSGI_SITES

SITES = [*ASGI_SITES, *WSGI_SITES]
