"""Redis servers as sellers have them: behind TLS, on a socket, in a cluster, with replicas."""

import shutil
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.core.claim_types import Replayable
from faregate.errors import ConfigurationError, JournalError
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.persistent import PersistentJournal
from faregate.journals.redis import RedisJournal
from faregate.journals.redis.connections import describe_url
from faregate.journals.urls import JournalContext, journal_from_url
from tests.core.flow_script import RECEIPT, TXN
from tests.journals.redis_journal import ask, opened, running
from tests.journals.rows import GOOD, HERE, released, started
from tests.journals.stores import KEY
from tests.servers import REDIS_MISSING, RedisServer, lossy_network
from tests.servers.shared import need
from tests.servers.store_server import free_port

NO_URLS = [
    "redis://host/canary",
    "redis://host/1/2",
    "redis:///canary.sock",
    "redis://:12?canary@host/0",
    "redis://:12#canary@host/0",
    "redis://host1:1,canary:2/0",
    "redis://host/0?canary=1",
    "redis://host/0?decode_responses=true&password=canary",
    "redis://host/0?ssl_ca_certs=canary",
    "rediss://host/0?socket_timeout=9&password=canary",
    "unix://canary/socket",
    "unix:///socket?canary=1",
]


# What a URL says


@pytest.mark.parametrize("url", NO_URLS)
def test_missing_parts_of_a_url_are_not_guessed(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"redis://USER:PASSWORD@HOST.*ssl_ca_certs.*unix://"
    ) as caught:
        RedisJournal(url, keys=[KEY])
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://user:canary@host", "redis://host:6379/0"),
        ("redis://host:1/3?password=canary", "redis://host:1/3"),
        ("rediss://:canary@[::1]:1/3?ssl_cert_reqs=none&ssl_ca_certs=/canary", "rediss://[::1]:1/3"),
        ("unix://user:canary@/run/redis%20here.sock?db=2", "unix:///run/redis here.sock?db=2"),
    ],
)
def test_secrets_in_a_url_are_not_shown(url: str, place: str) -> None:
    assert describe_url(url) == place
    assert "canary" not in repr(vars(RedisJournal(url, keys=[KEY])))


def named(url: str) -> PersistentJournal:
    """As `FAREGATE_JOURNAL` names it."""
    journal = journal_from_url(url, [KEY], JournalContext("test", "", DEFAULT_POLICY))
    assert isinstance(journal, RedisJournal)
    return journal


def sold_over(url: str) -> None:
    journal = named(url)
    try:
        released(journal)
        assert isinstance(journal.claim("proof", HERE), Replayable)
    finally:
        journal.disconnect()


def test_a_socket_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    socket = tmp_path_factory.mktemp("s") / "r.sock"
    with running(unixsocket=str(socket), requirepass="pass") as server:
        sold_over(f"unix://:pass@{socket}?db=2")
        assert b"db2:keys=" in ask(server, "INFO", "keyspace")
    with pytest.raises(JournalError, match=r"unix:///.*r\.sock\?db=2 could not be read or written"):
        named(f"unix://{socket}?db=2").claim("proof", HERE)


def test_a_database_of_its_own_and_a_user_who_may_select_it() -> None:
    with running() as server:
        rights = ["~faregate:*", "resetchannels", "+@read", "+@write", "+@scripting", "+time"]
        ask(server, "ACL", "SETUSER", "seller", "on", ">pass", *rights)
        url = f"redis://seller:pass@127.0.0.1:{server.port}/3"
        with pytest.raises(JournalError, match="and select for another database than 0"):
            named(url).claim("proof", HERE)
        ask(server, "ACL", "SETUSER", "seller", "+select")
        sold_over(url)
        assert ask(server, "DBSIZE") == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of `localhost`, signed by itself; its key lies beside it."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture
def tls_port(certificate: Path) -> Generator[int]:
    port, key = free_port(), certificate.with_name("key.pem")
    files = {
        "tls_cert_file": str(certificate),
        "tls_key_file": str(key),
        "tls_ca_cert_file": str(certificate),
    }
    with running(tls_port=str(port), tls_auth_clients="no", requirepass="pass", **files):
        yield port


def test_tls_with_a_certificate_that_is_trusted_and_no_other(tls_port: int, certificate: Path) -> None:
    url = f"rediss://:pass@localhost:{tls_port}/1"
    sold_over(f"{url}?ssl_ca_certs={certificate}")
    with pytest.raises(JournalError, match=f"rediss://localhost:{tls_port}/1 .*certificate verify failed"):
        named(url).claim("proof", HERE)
    with pytest.raises(JournalError, match="could not be read or written"):
        named(url.replace("rediss:", "redis:")).claim("proof", HERE)


# Clusters and replicas


def test_a_cluster_is_refused_and_says_what_to_do() -> None:
    """Whether its slots are served or not, and whatever its user may ask."""
    with running(cluster_enabled="yes") as server:
        for slots in ("none", "all"):
            if slots == "all":
                ask(server, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            with (
                opened(server) as journal,
                pytest.raises(ConfigurationError, match=r"is part of a cluster.* Use a"),
            ):
                journal.claim("proof", HERE)
        assert ask(server, "KEYS", "*") == []


class SentinelServer(RedisServer):
    def command(self) -> list[str]:
        configuration = self.folder / "sentinel.conf"
        configuration.write_text(f"bind 127.0.0.1\nport {self.port}\npidfile {self.folder / 'pid'}\n")
        return [super().command()[0], str(configuration), "--sentinel", "--daemonize", "no"]


def test_a_sentinel_is_no_server_to_write_to() -> None:
    need("redis", REDIS_MISSING)
    server = SentinelServer()
    try:
        server.open()
        with (
            opened(server) as journal,
            pytest.raises(ConfigurationError, match="use the address of its primary"),
        ):
            journal.claim("proof", HERE)
    finally:
        server.leave()


@pytest.fixture
def pair() -> Generator[tuple[RedisServer, RedisServer]]:
    """A primary and its replica."""
    with (
        running(repl_diskless_sync_delay="0") as primary,
        running(replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        while b"state=online" not in ask(primary, "INFO", "replication"):
            time.sleep(0.02)
        yield primary, replica


def promote(replica: RedisServer, primary: RedisServer) -> None:
    """When it has all that was written."""
    while f"offset={offset_of(primary)},".encode() not in ask(primary, "INFO", "replication"):
        time.sleep(0.02)
    ask(replica, "REPLICAOF", "NO", "ONE")


def offset_of(primary: RedisServer) -> int:
    said: bytes = ask(primary, "INFO", "replication")
    return int(said.partition(b"master_repl_offset:")[2].split()[0])


def test_a_demoted_server_is_left_for_the_one_with_its_name(
    pair: tuple[RedisServer, RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """The old primary keeps its connections, and refuses every write on them."""
    primary, replica = pair
    with (
        lossy_network(primary.port) as network,
        opened(primary, f"redis://127.0.0.1:{network.port}/0") as journal,
    ):
        lease = started(journal)
        promote(replica, primary)
        ask(primary, "REPLICAOF", "127.0.0.1", replica.port)
        with pytest.raises(JournalError, match="is a replica, which takes no writes: name the primary"):
            journal.record_outcome(lease, GOOD)
        network.pass_on_to(replica.port)
        assert journal.record_outcome(lease, GOOD)
        # Not `InProgress`: the lease of the failed write may have been given back meanwhile.
        journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
        assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    # A journal of another test may renew leases meanwhile.
    [warning] = [message for message in caplog.messages if "leases could not be renewed" not in message]
    assert "a replica has taken over; it may not have what was written last" in warning


def test_a_promoted_server_is_checked_like_the_first(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    ask(replica, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with (
        lossy_network(primary.port) as network,
        opened(primary, f"redis://127.0.0.1:{network.port}/0") as journal,
    ):
        lease = started(journal)
        promote(replica, primary)
        network.pass_on_to(replica.port)
        network.lose("request")
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="allkeys-lru"):
                journal.record_outcome(lease, GOOD)
        ask(replica, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert journal.record_outcome(lease, GOOD)


def test_a_primary_without_its_replicas_writes_nothing_and_says_so() -> None:
    with running() as server, opened(server) as journal:
        lease = started(journal)
        ask(server, "CONFIG", "SET", "min-replicas-to-write", 1)
        with pytest.raises(JournalError, match="fewer replicas follow it than its min-replicas-to-write"):
            journal.record_outcome(lease, GOOD)
        ask(server, "CONFIG", "SET", "min-replicas-to-write", 0)
        assert journal.record_outcome(lease, GOOD)


@pytest.fixture
def full_disk() -> Generator[RedisServer]:
    """A server whose snapshot failed."""
    with running(appendonly="no", save="3600 1") as server:
        in_the_way = server.folder / "dump.rdb" / "something"
        in_the_way.mkdir(parents=True)
        ask(server, "BGSAVE")
        while b"rdb_last_bgsave_status:err" not in ask(server, "INFO", "persistence"):
            time.sleep(0.02)
        yield server
        shutil.rmtree(in_the_way.parent)  # or it would not stop


def test_a_server_that_cannot_save_refuses_writes_until_it_can(full_disk: RedisServer) -> None:
    """Scripts that the server forgot meanwhile are sent anew."""
    with opened(full_disk) as journal:
        with pytest.raises(JournalError, match="refuses writes since it cannot write to its disk"):
            journal.claim("proof", HERE)
        ask(full_disk, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        lease = started(journal)
        ask(full_disk, "SCRIPT", "FLUSH")
        assert journal.record_outcome(lease, GOOD)
