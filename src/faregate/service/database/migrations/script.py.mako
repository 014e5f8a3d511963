"""${message}."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database import types
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
