"""Faults for three controllers behind proxies: drawn from a seed, injected one by one and healed."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Awaitable, Callable

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from kraft_core.protocol.uuids import uuid_from_text
from kraft_core.storage.format import parse_initial_controllers
from tests.hostile.faulty_links import FaultyLinks
from tests.interop import kafka
from tests.interop.conclave import Quorum, controller_client, describe_quorum

FAILURES = (ConnectionError, KafkaError, OSError)
VOTER_CHANGE_S_MAX = 60.0
AWAY_S = 6.0  # long enough at this load for the leader to truncate its log above a lagging node's end


class ProxiedQuorum(Quorum):
    """A quorum whose voters use the addresses of proxies. Nodes in `apache` run Apache's program."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.apache: frozenset[int] = frozenset()
        self.proxy_ports = kafka.free_ports(self.size)
        for node_id in self.node_ids:
            text = self.config_of(node_id).read_text()
            mine = self.port_of(node_id)
            text = text.replace(
                f"advertised.listeners=CONTROLLER://127.0.0.1:{mine}",
                f"advertised.listeners=CONTROLLER://127.0.0.1:{self.proxy_port_of(node_id)}",
            ).replace(
                f"bootstrap.servers={self.bootstrap}",
                "bootstrap.servers=" + ",".join(f"127.0.0.1:{port}" for port in self.proxy_ports),
            )
            self.config_of(node_id).write_text(text)
        assert parse_initial_controllers(self.initial_controllers, "CONTROLLER")

    @property
    def initial_controllers(self) -> str:
        """Return the voter set with the proxies' ports."""
        return ",".join(
            f"{node_id}@127.0.0.1:{self.proxy_port_of(node_id)}:{self.directory_ids[node_id - 1]}"
            for node_id in self.node_ids
        )

    def start(self, node_id: int) -> kafka.Process:
        """Start a node, ours or Apache's."""
        return self.start_apache(node_id) if node_id in self.apache else super().start(node_id)

    def proxy_port_of(self, node_id: int) -> int:
        """Return the advertised port of a controller."""
        return self.proxy_ports[node_id - 1]


def stop_together(quorum: ProxiedQuorum) -> list[str]:
    """Send SIGTERM to all nodes. Return a line per bad exit; an Apache node that is starting may have one."""
    for process in quorum.processes.values():
        process.send(signal.SIGTERM)
    codes = {node_id: process.popen.wait(kafka.PATIENCE_S) for node_id, process in quorum.processes.items()}
    return [
        f"node {node_id} ended with {code}" for node_id, code in codes.items() if code and node_id not in quorum.apache
    ]


class Tormentor:
    """Draws faults and heals them. `done` counts them, `wrong` has the violations."""

    def __init__(self, quorum: ProxiedQuorum, links: FaultyLinks, dice: random.Random) -> None:
        self.quorum, self.links, self.dice = quorum, links, dice
        self.done: dict[str, int] = {}
        self.timeline: list[tuple[float, str]] = []
        self.wrong: list[str] = []

    async def torment(self, seconds: float) -> None:
        """Inject faults one by one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self.do(self.dice.choice(self._faults()))
            await asyncio.sleep(self.dice.uniform(0.3, 2.0))

    def _faults(self) -> list[Callable[[], Awaitable[None]]]:
        frequent = [self.kill, self.freeze, self.isolate, self.cut_link, self.send_again, self.change_voters]
        rare = [self.kill_all, self.one_way, self.stall, self.delay, self.reset, self.damage, self.lag]
        return [*frequent, *frequent, *rare]

    async def do(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Run one fault and count it."""
        name = fault.__name__
        self.done[name] = self.done.get(name, 0) + 1
        self.timeline.append((time.monotonic(), name))
        await fault()

    async def _victim(self) -> int:
        """Return a node: the leader half of the time, if there is one."""
        anybody, is_leader = self.dice.choice(list(self.quorum.node_ids)), self.dice.random() < 0.5
        found = await self.quorum.leader() if is_leader else None
        return anybody if found is None else found[0]

    async def _hold(self, low: float = 0.2, high: float = 4.0) -> None:
        await asyncio.sleep(self.dice.uniform(low, high))

    async def _hold_and_heal(self) -> None:
        await self._hold()
        self.links.heal()

    # -- processes

    async def kill(self) -> None:
        """Send SIGKILL to one node and start it later."""
        victim = await self._victim()
        self.quorum.processes[victim].kill()
        await self._hold(0.0, 2.0)
        self.quorum.start(victim)

    async def kill_all(self) -> None:
        """Send SIGKILL to all three nodes at once and start them later."""
        for process in self.quorum.processes.values():
            process.popen.kill()
        for node_id in self.quorum.node_ids:
            self.quorum.processes[node_id].kill()
            self.quorum.start(node_id)
        await asyncio.sleep(2)

    async def freeze(self) -> None:
        """Send SIGSTOP to one or two nodes, and SIGCONT later."""
        victim = await self._victim()
        victims = {victim, self.dice.choice((victim, victim, *self.quorum.node_ids))}
        for victim in victims:
            self.quorum.freeze(victim)
        await self._hold()
        for victim in victims:
            self.quorum.thaw(victim)

    async def lag(self) -> None:
        """Stop a node until it needs a snapshot."""
        victim = await self._victim()
        self.quorum.processes[victim].kill()
        await asyncio.sleep(AWAY_S)
        self.quorum.start(victim)

    # -- links

    async def isolate(self) -> None:
        """Disconnect a node from the others, but not from clients."""
        self.links.isolate(await self._victim())
        await self._hold_and_heal()

    async def cut_link(self) -> None:
        """Disconnect two nodes in one or both directions."""
        source = await self._victim()
        target = self.dice.choice([each for each in self.quorum.node_ids if each != source])
        self.links.cut(source, target)
        if self.dice.random() < 0.5:
            self.links.cut(target, source)
        await self._hold_and_heal()

    async def stall(self) -> None:
        """Hold back the requests to one node, of all others or of one."""
        for link in self.dice.choice((list, lambda links: list(links)[:1]))(self.links.to(await self._victim())):
            link.stalled = True
        await self._hold_and_heal()

    async def one_way(self) -> None:
        """Drop the answers of a node that receives requests."""
        for link in self.links.to(await self._victim()):
            link.answers_stalled = True
        await self._hold_and_heal()

    async def delay(self) -> None:
        """Delay all links."""
        for node_id in self.quorum.node_ids:
            for link in self.links.to(node_id):
                link.delay_ms = self.dice.uniform(1, 150)
        await self._hold_and_heal()

    async def damage(self) -> None:
        """Flip bits in what one node fetches."""
        for link in self.links.of(await self._victim()):
            link.damaged = True
        await self._hold_and_heal()

    async def reset(self) -> None:
        """Reset all connections between nodes."""
        self.links.reset()

    async def send_again(self) -> None:
        """Repeat old requests of this and earlier epochs."""
        for node_id in self.quorum.node_ids:
            await self.links.send_again(node_id, self.dice.randint(1, 60))

    # -- voters

    async def change_voters(self) -> None:
        """Remove a voter and add it again, possibly with a fault in between."""
        victim = await self._victim()
        await self._change(victim, is_wanted=False)
        if self.dice.random() < 0.5:
            await self.do(self.dice.choice((self.kill, self.freeze, self.isolate, self.reset)))
        await self._change(victim, is_wanted=True)

    async def _change(self, node_id: int, *, is_wanted: bool) -> None:
        """Retry until the leader has added or removed a voter."""
        client = controller_client(self.quorum.bootstrap)
        message = self._addition(node_id) if is_wanted else self._removal(node_id)
        deadline = time.monotonic() + VOTER_CHANGE_S_MAX
        codes: list[int] = []
        try:
            while (node_id in await self._voters()) != is_wanted:
                if time.monotonic() > deadline:
                    self.wrong.append(f"node {node_id} is {'no' if is_wanted else 'still a'} voter: {codes}")
                    return
                with contextlib.suppress(*FAILURES):
                    answer = await client.request(message, timeout_ms=6_000)
                    codes.append(answer.error_code)
                    if answer.error_code != ErrorCode.NONE:
                        await asyncio.sleep(0.1)
        finally:
            client.close()

    async def _voters(self) -> set[int]:
        """Return the voters that the leader reports."""
        while True:
            found = await self.quorum.leader()
            partition = None if found is None else await describe_quorum(self.quorum.port_of(found[0]))
            if partition is not None:
                return {voter.replica_id for voter in partition.current_voters}
            await asyncio.sleep(0.05)

    def _addition(self, node_id: int) -> AddRaftVoterRequest:
        port = self.quorum.proxy_port_of(node_id)
        return AddRaftVoterRequest(
            cluster_id=self.quorum.cluster_id,
            timeout_ms=5_000,
            voter_id=node_id,
            voter_directory_id=uuid_from_text(self.quorum.directory_ids[node_id - 1]),
            listeners=(AddRaftVoterRequestListener(name="CONTROLLER", host="127.0.0.1", port=port),),
        )

    def _removal(self, node_id: int) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(
            cluster_id=self.quorum.cluster_id,
            voter_id=node_id,
            voter_directory_id=uuid_from_text(self.quorum.directory_ids[node_id - 1]),
        )
