"""List the files that WhiteNoise serves. It is never imported: an application that uses it has it."""

import os
from collections.abc import Iterator
from typing import Any


def list_urls(whitenoise: Any) -> Iterator[str]:
    """List the paths at which a WhiteNoise, or its middleware for Django, has a file now."""
    yield from whitenoise.files
    index = whitenoise.index_file
    for root, prefix in whitenoise.directories:  # where it looks for each request, with `autorefresh`
        for folder, _, names in os.walk(str(root)):
            below = os.path.relpath(folder, root).replace(os.sep, "/")
            above = prefix if below == "." else f"{prefix}{below}/"
            yield from (above + name for name in names)
            if index in names:
                yield above
