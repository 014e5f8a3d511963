"""The merchant service to deploy (`faregate service`): one process or several on one database.

It settles real payments. The rules of the Merchant API are in `faregate.rules`, and the client side in
`faregate.merchant`.
"""

from importlib.util import find_spec as _find_spec

for _package in ("alembic", "eth_keys", "prometheus_client", "sqlalchemy", "uvicorn"):
    if _find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"The service needs {_package}: pip install 'faregate[service]'", name=_package
        )
