from tests.support.chain import chain, payer

__all__ = ["chain", "payer"]
