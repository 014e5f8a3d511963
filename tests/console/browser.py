"""A headless Chromium, that of the machine: Playwright drives it and downloads none."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no window to draw: it takes a third less CPU than the others."""
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
CHROMIUM_MISSING = (
    "" if PROGRAM else "there is no Chromium here (Debian: apt-get install chromium-headless-shell)"
)

CURL_MISSING = (
    "" if shutil.which("curl") else "there is no curl on this machine (Debian: apt-get install curl)"
)


@contextmanager
def chromium() -> Generator[Browser]:
    """Root, as in a container, has no sandbox."""
    alone = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=alone)
        try:
            yield browser
        finally:
            browser.close()
