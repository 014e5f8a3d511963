"""The time of a server, reckoned on between two askings."""

import pytest

from faregate.errors import JournalError
from faregate.journals.clock import REFRESH_SECONDS, ServerClock


class Server:
    """One whose clock is `ahead` of ours, and which answers after `there` and `back` seconds."""

    def __init__(self) -> None:
        self.now = 50.0
        self.ahead = 1000.0
        self.there = self.back = 0.0
        self.asked = 0
        self.is_down = False

    def ask(self) -> float:
        self.asked += 1
        if self.is_down:
            raise JournalError("down")
        self.now += self.there
        answer = self.now + self.ahead
        self.now += self.back
        return answer

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock(server: Server) -> ServerClock:
    return ServerClock(server.ask, server.monotonic)


def test_the_server_is_asked_on_first_use_and_then_once_a_minute(server: Server, clock: ServerClock) -> None:
    assert server.asked == 0
    assert clock() == 1050.0
    server.now += REFRESH_SECONDS - 1
    assert clock() == 1050.0 + REFRESH_SECONDS - 1
    assert server.asked == 1
    server.now += 1
    assert clock() == 1050.0 + REFRESH_SECONDS
    assert server.asked == 2


def test_half_of_the_round_trip_is_subtracted(server: Server, clock: ServerClock) -> None:
    server.there = server.back = 2.0
    assert clock() == server.now + 1000.0
    server.now += REFRESH_SECONDS
    server.there, server.back = 4.0, 0.0
    assert abs(clock() - (server.now + 1000.0)) <= 2.0


def test_a_quick_answer_counts_more_than_a_slow_one(server: Server, clock: ServerClock) -> None:
    server.there, server.back = 3.0, 0.0
    assert clock() - server.now == pytest.approx(1001.5)
    server.now += REFRESH_SECONDS
    server.there = server.back = 0.001
    assert clock() - server.now == pytest.approx(1000.0)
    server.now += REFRESH_SECONDS
    server.there, server.back = 0.0, 3.0
    assert clock() - server.now == pytest.approx(1000.0)


def test_a_clock_that_was_set_is_followed_however_slow_the_answer(server: Server, clock: ServerClock) -> None:
    assert clock() == 1050.0
    server.ahead, server.there, server.back = 5000.0, 1.0, 1.0
    server.now += REFRESH_SECONDS
    assert clock() == server.now + 5000.0


def test_drift_between_two_clocks_is_corrected(server: Server, clock: ServerClock) -> None:
    """What was sure once is not sure for ever."""
    assert clock() == 1050.0
    server.there = server.back = 0.005
    for _ in range(60):
        server.now += REFRESH_SECONDS
        server.ahead += REFRESH_SECONDS * 5e-5
        assert clock() - server.now == pytest.approx(server.ahead, abs=0.01)


def test_a_server_that_is_down_is_an_error_only_while_nothing_is_known(
    server: Server, clock: ServerClock
) -> None:
    server.is_down = True
    with pytest.raises(JournalError):
        clock()
    server.is_down = False
    assert clock() == 1050.0
    server.is_down = True
    server.now += REFRESH_SECONDS
    assert clock() == 1050.0 + REFRESH_SECONDS
    assert server.asked == 3
    assert clock() == 1050.0 + REFRESH_SECONDS
    assert server.asked == 3
