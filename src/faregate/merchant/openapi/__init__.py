"""The service described: an OpenAPI 3.1 document, written from the contract's models. Pure.

It has no date and no version of faregate, so it changes only with the models. `merchant/openapi.json` is its
output, which `tests/merchant/openapi` compares with it and with the service's answers.
"""

import json
from copy import deepcopy
from typing import Final

from faregate.merchant.openapi.operations import HEADERS, build_problems, paths
from faregate.merchant.openapi.schemas import Json, schemas

__all__ = ["describe"]

SECURITY: Final = "OrganizationApiKeyAuth"

_ABOUT: Final = (
    "A seller's server authorizes access to a paid resource before the work, and completes the transaction "
    "after it. Amounts are in atomic units of the asset. The API key selects test or live data."
)
_KEY: Final = "The seller's private API key, `svc_test_...` or `svc_live_...`; sent from servers only."


def describe() -> Json:
    """Return the service as an OpenAPI 3.1 document of plain JSON values, which the caller may change."""
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "Paid-Access Merchant API", "version": "1.0.0", "description": _ABOUT},
        "servers": [
            {
                "url": "{base_url}",
                "variables": {
                    "base_url": {
                        "default": "http://127.0.0.1:8402",
                        "description": "Where the service is; paths are relative to it.",
                    }
                },
            }
        ],
        "security": [{SECURITY: []}],
        "paths": paths(),
        "components": {
            "schemas": schemas(),
            "responses": build_problems(),
            "headers": dict(HEADERS),
            "securitySchemes": {SECURITY: {"type": "http", "scheme": "bearer", "description": _KEY}},
        },
    }
    # Some of its parts are constants that occur in several places.
    return deepcopy(document)


def as_text() -> str:
    """The document as it is shipped: indented JSON with a newline at its end."""
    return json.dumps(describe(), indent=2, ensure_ascii=False) + "\n"
