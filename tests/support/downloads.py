"""Install what tests take from npm, once per checkout: `python -m tests.support.downloads`.

Otherwise the first test that needs it would, in each of the processes that run tests.
"""

from examples.chain.anvil import NoAnvil, install_anvil
from examples.chain.typescript_payer import NoTypeScript, install_client

from tests.support.preloaded import ROOT


def main() -> None:
    try:
        install_anvil()
        install_client()
        install_client(ROOT / "examples/mcp/typescript")
        install_client(ROOT / "examples/payer/typescript")
    except (NoAnvil, NoTypeScript) as error:
        print(f"Tests that need this are skipped: {error}")


if __name__ == "__main__":
    main()
