"""The merchant service to run: one process or several on one database, settling real payments."""

from importlib.util import find_spec as _find_spec

for _package in ("alembic", "eth_keys", "prometheus_client", "sqlalchemy", "uvicorn"):
    if _find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"The service needs {_package}: pip install 'faregate[service]'", name=_package
        )
