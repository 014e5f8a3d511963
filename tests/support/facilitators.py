"""The official facilitator of Python, forked from a process that has imported it already."""

from collections.abc import Generator
from contextlib import contextmanager

from examples.chain.facilitator import GAS_KEYS, PATIENCE, FacilitatorProcess

from tests.support.preloaded import PreloadedPython


class ForkedFacilitator(FacilitatorProcess):
    """Starts in a tenth of the time, which counts for tests that restart it."""

    def _spawn(self, command: list[str], environment: dict[str, str]) -> PreloadedPython:
        return PreloadedPython(command[1:], environment)


@contextmanager
def run_facilitator(
    rpc_url: str, *, gas_key: str = GAS_KEYS[0], patience: float = PATIENCE
) -> Generator[FacilitatorProcess]:
    """Run the facilitator until the block ends."""
    process = ForkedFacilitator(rpc_url, gas_key=gas_key, patience=patience)
    process.start()
    try:
        yield process
    finally:
        process.kill()
