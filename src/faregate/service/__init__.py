"""The merchant service to deploy (`faregate service`): one process or several on one database.

It settles real payments. The rules of the Merchant API are in `faregate.rules`, and the client side in
`faregate.merchant`.
"""

import logging as _logging
from importlib.util import find_spec as _find_spec

_alembic = _logging.getLogger("alembic")
if _alembic.level == _logging.NOTSET:
    # It tells at "info" what it loads. An application that logs at this level would show it at every start.
    _alembic.setLevel(_logging.WARNING)

for _package in ("alembic", "eth_keys", "prometheus_client", "sqlalchemy", "uvicorn"):
    if _find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"The service needs {_package}: pip install 'faregate[service]'", name=_package
        )
