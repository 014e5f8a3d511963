"""The headers of x402: JSON in base64."""

import base64
import json
from typing import Any


def decode_header(value: str) -> Any:
    return json.loads(base64.b64decode(value, validate=True))


def encode_header(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()
