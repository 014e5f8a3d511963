"""The contracts of the scheme `upto` on the local chain, at their published addresses.

Permit2 is the real one: its code is in a package of npm. Its address follows from the code, so that no other
code gets there. The scheme's proxy is in no package: `upto_proxy.vy` follows its interface.
"""

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eth_utils.crypto import keccak

from examples.chain.node_process import NoNode
from faregate.x402.permit2 import PERMIT2, UPTO_PROXY

if TYPE_CHECKING:
    from examples.chain.local import LocalChain

PACKAGE: Final = "@uniswap/uniswapx-sdk@3.1.0"
_CACHE: Final = Path(__file__).parents[2] / ".cache"
_MEMBER: Final = "package/dist/cjs/src/contracts/factories/Permit2__factory.js"
_CODE: Final = re.compile(r'"0x([0-9a-f]{2000,})"')
DEPLOYER: Final = "0x4e59b44847b379578588920cA78FbF26c0B4956C"
"""Creates contracts whose address depends on a salt and their code. It is on most chains, and in anvil."""
_SALT: Final = "d3af2663da51c10215000000".rjust(64, "0")
"""With which Permit2 was deployed."""
_PROXY_CREATION: Final = Path(__file__).with_name("upto_proxy.hex")
"""As vyper 0.4.3 makes it: `vyper examples/chain/upto_proxy.vy > examples/chain/upto_proxy.hex`."""
_GAS: Final = 4_000_000
_INSTALL_SECONDS: Final = 180.0


class NoPermit2(NoNode):
    """Permit2 cannot be had on this machine; the message says why."""


def install_permit2() -> str:
    """Return the code that creates Permit2, as hex, from npm on first use. Raises `NoPermit2`."""
    kept = _CACHE / "permit2-3.1.0.hex"
    if not kept.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            made = Path(folder) / kept.name
            made.write_text(_fetch(Path(folder)))
            made.replace(kept)
    code = kept.read_text()
    place = bytes.fromhex("ff" + DEPLOYER[2:] + _SALT) + keccak(hexstr=code)
    if "0x" + keccak(place)[-20:].hex() != PERMIT2.lower():
        raise NoPermit2(f"{kept} is not the code of Permit2")
    return code


def _fetch(folder: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise NoPermit2("npm is missing: Permit2 comes with it")
    command = [npm, "pack", "--silent", PACKAGE]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        raise NoPermit2(f"npm could not fetch {PACKAGE}: {error.stderr.decode()[-400:]}") from None
    except subprocess.TimeoutExpired:
        raise NoPermit2(f"npm did not fetch {PACKAGE} in {_INSTALL_SECONDS:.0f} s") from None
    [archive] = folder.glob("*.tgz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile(_MEMBER)
        found = _CODE.search("" if member is None else member.read().decode())
    if found is None:
        raise NoPermit2(f"{PACKAGE} has no code of Permit2")
    return found[1]


def deploy_upto(chain: "LocalChain") -> None:
    """Put Permit2 and the proxy of `upto` on the chain. Raises `NoPermit2`."""
    if chain.call("eth_getCode", PERMIT2, "latest") == "0x":
        chain.send(DEPLOYER, "0x" + _SALT + install_permit2(), gas=_GAS)
    creation = {"data": _PROXY_CREATION.read_text("ascii").strip()}
    chain.call("anvil_setCode", UPTO_PROXY, chain.call("eth_call", creation, "latest"))
