"""Real stores for the tests: servers of their own, on free ports of loopback, with their data in folders
of their own. They end with whoever started them, however that ends.

`with redis_server() as url:` is all that a script needs. `RedisServer`, `PostgresServer` and `MariadbServer`
can be stopped, killed and started again.
"""

from tests.servers.mariadb import MARIADB_MISSING, MariadbServer, mariadb_server
from tests.servers.network import Network, lossy_network
from tests.servers.postgres import POSTGRES_MISSING, PostgresServer, postgres_server
from tests.servers.redis import REDIS_MISSING, RedisServer, redis_server

__all__ = [
    "MARIADB_MISSING",
    "POSTGRES_MISSING",
    "REDIS_MISSING",
    "MariadbServer",
    "Network",
    "PostgresServer",
    "RedisServer",
    "lossy_network",
    "mariadb_server",
    "postgres_server",
    "redis_server",
]
