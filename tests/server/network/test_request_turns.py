"""RequestTurns with a simulated clock and loop."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kraft_core.server.network.request_turns import TURN_BUDGET_S, Rank, RequestTurns

COST_S = TURN_BUDGET_S / 2


@dataclass
class Loop:
    """A loop whose turns the test runs."""

    due: list[Callable[[], None]] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.turns = RequestTurns(self.due.append, lambda: self.now_s)

    def turn(self) -> float:
        """Run one turn and return its duration."""
        began_s, due, self.due[:] = self.now_s, list(self.due), []
        for callback in due:
            callback()
        return self.now_s - began_s


@dataclass
class Client:
    """A connection with requests of given durations."""

    loop: Loop
    rank: Rank = Rank.SMALL
    left: int = 1
    cost_s: float = COST_S
    waits: bool = False

    def take_turn(self) -> None:
        self.waits = False
        turns = self.loop.turns
        while self.left and turns.may_take(self.rank):
            began_s = turns.begin()
            self.loop.now_s += self.cost_s
            self.left -= 1
            turns.end(began_s)
        if self.left:
            self.waits = True
            turns.wait(self, self.rank)


def test_requests_are_served_at_once_while_the_turn_has_time() -> None:
    loop = Loop()
    client = Client(loop, left=2)
    client.take_turn()
    assert client.left == 0
    assert not loop.turns.waiting


def test_a_turn_with_few_small_requests_needs_no_callback() -> None:
    loop = Loop()
    for _ in range(9):
        Client(loop, cost_s=TURN_BUDGET_S / 50).take_turn()
        assert not loop.due
    Client(loop, left=100).take_turn()
    assert loop.due


def test_all_connections_together_use_at_most_the_budget_of_a_turn_and_one_request() -> None:
    loop = Loop()
    clients = [Client(loop, left=100) for _ in range(200)]
    for client in clients:
        client.take_turn()
    longest = max(loop.turn() for _ in range(1_000))
    assert longest <= TURN_BUDGET_S + COST_S


def test_connections_are_served_one_after_another() -> None:
    loop = Loop()
    clients = [Client(loop, left=10) for _ in range(4)]
    for client in clients:
        client.take_turn()
    while loop.due:
        left = [client.left for client in clients]
        assert max(left[1:]) - min(left[1:]) <= 4
        loop.turn()
    assert not any(client.left for client in clients)


def test_urgent_requests_precede_waiting_ones_and_may_exceed_the_budget() -> None:
    loop = Loop()
    flood = [Client(loop, left=1_000) for _ in range(50)]
    for client in flood:
        client.take_turn()
    vote = Client(loop, Rank.URGENT)
    vote.take_turn()
    assert vote.left == 0


def test_a_flood_of_urgent_requests_does_not_block_the_loop() -> None:
    loop = Loop()
    flood = [Client(loop, Rank.URGENT, left=1_000) for _ in range(50)]
    for client in flood:
        client.take_turn()
    assert max(loop.turn() for _ in range(100)) <= 2 * TURN_BUDGET_S + COST_S


def test_a_small_request_waits_for_one_large_one_at_most_and_large_ones_are_not_starved() -> None:
    loop = Loop()
    large = [Client(loop, Rank.LARGE, left=5, cost_s=0.2) for _ in range(20)]
    for client in large:
        client.take_turn()
    small = Client(loop, left=10**6, cost_s=TURN_BUDGET_S)
    small.take_turn()
    before = small.left
    for _ in range(20):
        assert loop.turn() <= 0.2 + 2 * TURN_BUDGET_S
    assert before - small.left >= 20
    assert sum(client.left for client in large) == 20 * 5 - 1 - 20
