"""Which connections of a full address are closed, and when the others are read again."""

import asyncio

from kraft_core.server.network.unsent_answers import STALLED_S, UnsentAnswers

LIMIT = 1_000


class Peer:
    """A connection with unsent answers; its peer reads `pace` bytes between two counts."""

    def __init__(self, unsent: UnsentAnswers, size: int, pace: int = 0, address: str = "a") -> None:
        self.client_host = address
        self.unsent_bytes = size
        self.stalled_watches = 0
        self.is_closed = False
        self.reads = 0
        self._pace = pace
        self._unsent = unsent
        unsent.count(address, size)

    def count_unsent(self) -> bool:
        taken = min(self._pace, self.unsent_bytes)
        self.unsent_bytes -= taken
        self._unsent.count(self.client_host, -taken)
        return taken > 0

    def close(self, cause: str) -> None:
        assert cause
        self.is_closed = True
        self._unsent.count(self.client_host, -self.unsent_bytes)
        self.unsent_bytes = 0

    def read_on(self) -> None:
        self.reads += not self._unsent.blocks(self)


def test_a_full_address_loses_its_largest_stalled_connections_and_is_read_again() -> None:
    peers: list[Peer] = []

    async def scenario() -> None:
        unsent = UnsentAnswers(peers, 10 * LIMIT, LIMIT)
        peers.extend((Peer(unsent, 1_200), Peer(unsent, 700), Peer(unsent, 900, 1), Peer(unsent, 0)))
        assert unsent.blocks(peers[3])
        assert unsent.room("a") == 0
        elsewhere = Peer(unsent, 0, address="b")
        assert not unsent.blocks(elsewhere)
        while not peers[3].reads:
            await asyncio.sleep(STALLED_S / 20)
        assert [peer.is_closed for peer in peers] == [True, True, False, False]
        assert not unsent.blocks(peers[3])

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_no_connection_is_closed_below_twice_the_limit() -> None:
    peers: list[Peer] = []

    async def scenario() -> None:
        unsent = UnsentAnswers(peers, 10 * LIMIT, LIMIT)
        peers.extend((Peer(unsent, 1_200), Peer(unsent, 700)))
        await asyncio.sleep(2 * STALLED_S)
        assert not any(peer.is_closed for peer in peers)

    asyncio.run(scenario())
