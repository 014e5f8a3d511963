"""The service described: an OpenAPI 3.1 document, written from the contract's models. Pure."""

from faregate.merchant.openapi.document import describe

__all__ = ["describe"]
