"""The official x402 client for TypeScript, installed from npm and run by node."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

SOURCES: Final = Path(__file__).with_name("typescript")
CACHE: Final = Path(__file__).parents[2] / ".cache"
_INSTALL_SECONDS: Final = 180.0
_PAY_SECONDS: Final = 60.0


class NoTypeScript(Exception):
    """The client cannot be had on this machine; the message says why."""


def install_client(own: Path = SOURCES) -> Path:
    """Return the folder of the client in `own`, installed on first use. Raises `NoTypeScript`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NoTypeScript("node or npm is missing: the TypeScript client is installed with them")
    sources = b"".join(path.read_bytes() for path in sorted(own.iterdir()) if path.is_file())
    folder = CACHE / f"typescript-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not folder.exists():
        _install(own, folder)
    return folder


def _install(own: Path, folder: Path) -> None:
    CACHE.mkdir(exist_ok=True)
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    # Installed elsewhere and moved: several processes may do it at once, and any may be killed.
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        made = Path(place) / "made"
        shutil.copytree(own, made)
        try:
            subprocess.run(command, cwd=made, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
        except subprocess.CalledProcessError as error:
            raise NoTypeScript(f"npm could not install the client: {error.stderr.decode()[-400:]}") from None
        except subprocess.TimeoutExpired:
            raise NoTypeScript(f"npm did not install the client in {_INSTALL_SECONDS:.0f} s") from None
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise


def pay(folder: Path, method: str, url: str, body: str = "", *, private_key: str = "") -> dict[str, Any]:
    """Pay for one request and return what the client saw: address, status, body, paid (or `refused`)."""
    environment = {name: value for name, value in os.environ.items() if name != "PAYER_KEY"}
    if private_key:
        environment["PAYER_KEY"] = private_key
    done = subprocess.run(
        ["node", "pay.mjs", method, url, *([body] if body else [])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PAY_SECONDS,
    )
    if done.returncode != 0:
        raise NoTypeScript(f"the TypeScript client failed: {done.stderr.strip()[-400:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
