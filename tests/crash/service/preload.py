"""Imported once, by the process that all others of a campaign are forked from."""

import importlib

for _name in (
    *("alembic.command", "alembic.script", "psycopg", "uvloop"),
    *("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
    *("faregate.service.commands.serve", "faregate.service.in_process", "faregate.starlette"),
    *("django.core.wsgi", "faregate.flask", "gunicorn.arbiter", "gunicorn.workers.gthread"),
    *("waitress.server", "x402.facilitator", "x402.mechanisms.evm", "x402.mechanisms.evm.exact"),
    *("x402.schemas", "tests.crash.service.child", "tests.crash.service.facilitator"),
):
    importlib.import_module(_name)
