"""The faults that a seed may enable. Each happens at random times and is repaired later."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft_core.raft.events import Shutdown
from tests.simulator.sim_broker import SimBroker
from tests.simulator.sim_node import PARTITION, QUICK_DISK_US, SimNode
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.simulator.scenario import Scenario

RARE = {
    "power_all": 4,
    "kill_all": 4,
    "stop": 2,
    "resign": 2,
    "split": 2,
    "wipe": 3,
    "bit_flip": 2,
    "zeroed_sector": 2,
    "broker_directory": 3,
}
"""How much rarer than the others an enabled fault is."""


class Faults:
    """The faults of one run. A fault that destroys data happens only if the operator tolerates it."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.world, self.network = scenario.world, scenario.network
        self.random = scenario.world.random
        self.nodes = scenario.nodes
        self.brokers = scenario.story.brokers if scenario.story is not None else []
        self.is_on = True

    def schedule(self, fault: str) -> None:
        """Let a fault happen after random times, repeatedly."""
        mean_us = SECOND_US * RARE.get(fault, 1) * 1.2
        self.world.after(int(self.random.expovariate(1 / mean_us)), self._strike, fault)

    def _strike(self, fault: str) -> None:
        if self.is_on:
            strike: Callable[[], None] = getattr(self, fault)
            strike()
            self.schedule(fault)

    def _some_time_us(self, most_s: float) -> int:
        return int(self.random.random() ** 2 * most_s * SECOND_US)

    def _any(self) -> SimNode:
        return self.random.choice(self.nodes)

    def _start_later(self, node: SimNode, most_s: float) -> None:
        self.world.after(self._some_time_us(most_s), self.scenario.operator.start, node)

    # --- processes --------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        node = self._any()
        node.kill()
        self._start_later(node, 3)

    def kill_all(self) -> None:
        for node in self.nodes:
            node.kill()
            self._start_later(node, 2)

    def power(self) -> None:
        """Cut the power of a node. Only a disk that may be lost gets holes, which a log cannot tell from damage."""
        node = self._any()
        node.crash(leaves_holes=self.scenario.operator.may_destroy(node))
        self._start_later(node, 3)

    def power_all(self) -> None:
        for node in self.nodes:
            node.crash()
            self._start_later(node, 2)

    def crash_in_file_operation(self) -> None:
        """Kill a node in one of its next file operations, such as between a rename and the sync of its directory."""
        node = self._any()
        if node.node is not None:
            node.disk.crash_in = self.random.choice([0, 1, 2, 3, 5, 8, 20])
        self._start_later(node, 2)

    def crash_in_installation(self) -> None:
        """Kill a node between two file operations of its next snapshot installation."""
        node = self._any()
        stage, operations = self.random.choice([("download", 4), ("install", 10), ("install", 30)])
        node.cut_next = stage, self.random.randint(0, operations)
        self._start_later(node, 3)

    def stop(self) -> None:
        node = self._any()
        node.deliver(node.incarnation, Shutdown(self.random.choice([1, 500, 3000])))
        self.world.after(2 * SECOND_US + self._some_time_us(2), self.scenario.operator.start, node)

    def resign(self) -> None:
        for node in self.nodes:
            if node.is_leader and not node.is_paused:
                node.resign()

    def pause(self) -> None:
        node = self._any()
        node.pause()
        self.world.after(self._some_time_us(4), node.resume)

    def clock_jump(self) -> None:
        """Set the wall clock; the monotonic clock continues at its own rate."""
        self._any().wall_jump_s += self.random.choice([-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0])

    # --- network ----------------------------------------------------------------------------------------------------

    def _cut(self, links: set[tuple[int, int]]) -> None:
        self.network.cut |= links
        self.world.after(self._some_time_us(5), self.network.cut.difference_update, links)

    def isolate(self) -> None:
        one = self._any().id
        self._cut({link for other in self.nodes for link in ((one, other.id), (other.id, one))})

    def split(self) -> None:
        here = {node.id for node in self.nodes if self.random.random() < 0.5}
        self._cut({(a.id, b.id) for a in self.nodes for b in self.nodes if (a.id in here) != (b.id in here)})

    def one_way(self) -> None:
        self._cut({(self._any().id, self._any().id)})

    def flap(self) -> None:
        """Cut and restore a link a few times per second."""
        link = {(self._any().id, self._any().id)}
        for each in range(self.random.randint(2, 12)):
            self.world.after(each * 150_000, self.network.cut.update, link)
            self.world.after(each * 150_000 + self.random.randint(10_000, 140_000), self.network.heal, link)

    def reset(self) -> None:
        self.network.reset(self._any().id, self._any().id)

    def drop(self) -> None:
        self.network.drop = self.random.choice([0.0, 0.02, 0.1, 0.3])

    def duplicate(self) -> None:
        self.network.duplicate = self.random.choice([0.0, 0.05, 0.3])

    def delay(self) -> None:
        """Delay some messages, so that others overtake them."""
        self.network.spike = self.random.choice([0.0, 0.02, 0.1, 0.3])

    # --- disks ------------------------------------------------------------------------------------------------------

    def slow_disk(self) -> None:
        self._any().disk_delay_us = self.random.choice([QUICK_DISK_US, (5_000, 50_000), (10_000, 900_000)])

    def failed_write(self) -> None:
        self._any().disk.failing_write = True

    def failed_sync(self) -> None:
        self._any().disk.failing_sync = True

    def full_disk(self) -> None:
        node = self._any()
        if node.node is not None:
            node.disk.free_bytes = self.random.choice([0, 100, 1_000])

    def write_back(self) -> None:
        """Let the kernel write its dirty pages."""
        self._any().disk.write_back()

    def bit_flip(self) -> None:
        self._damage("bit_flip")

    def zeroed_sector(self) -> None:
        self._damage("zeroed_sector")

    def misdirected_write(self) -> None:
        self._damage("misdirected_write")

    def _damage(self, kind: str) -> None:
        """Damage a file of a node that is down or is killed for it, so that its cache was written back.

        Together with a power loss, damage at the end of the log would look like a torn write.
        """
        node = self._any()
        if not self.scenario.operator.may_destroy(node) or node.disk.has_lost_power:
            return
        node.kill()
        disk = node.disk
        disk.write_back()
        suffix = self.random.choice([".log", ".checkpoint", "quorum-state", ""])
        victims = [
            path
            for path, inode in disk.files.items()
            if path.parent == PARTITION and inode.data and path.name.endswith(suffix)
        ]
        if victims:
            path = self.random.choice(victims)
            disk.damage(path, kind)
            self.world.note(kind, node.id, path.name)
        self._start_later(node, 2)

    def wipe(self) -> None:
        """Lose a whole disk."""
        node = self._any()
        if self.scenario.operator.may_destroy(node):
            node.kill()
            self.scenario.operator.replace_disk(node)

    # --- brokers ----------------------------------------------------------------------------------------------------

    def _broker(self) -> SimBroker:
        return self.random.choice(self.brokers)

    def broker_kill(self) -> None:
        broker = self._broker()
        broker.kill()
        self.world.after(self._some_time_us(4), broker.start)

    def broker_pause(self) -> None:
        broker = self._broker()
        broker.pause()
        self.world.after(self._some_time_us(5), broker.resume)

    def broker_leave(self) -> None:
        """Start a controlled shutdown; a broker that does not complete it in time is killed."""
        broker = self._broker()
        broker.leave()
        self.world.after(2 * SECOND_US, self._end_leaving, broker, broker.incarnation)
        self.world.after(2 * SECOND_US + self._some_time_us(3), broker.start)

    def _end_leaving(self, broker: SimBroker, incarnation: int) -> None:
        if broker.incarnation == incarnation and broker.is_leaving:
            broker.kill()

    def broker_repeat(self) -> None:
        self._broker().repeat()

    def broker_cut(self) -> None:
        """Cut a broker from the controllers, the other brokers or all, in one or both directions."""
        one = self._broker().id
        peers = [each.id for each in self.brokers if each.id != one]
        others = self.random.choice([peers, [node.id for node in self.nodes], [*peers, *(it.id for it in self.nodes)]])
        links = {(one, other) for other in others}
        if self.random.random() < 0.5:
            links |= {(other, one) for other in others}
        self._cut(links)

    def broker_directory(self) -> None:
        broker = self._broker()
        broker.fail_directory()
        self.world.after(self._some_time_us(5), broker.kill)
        self.world.after(5 * SECOND_US, broker.start)

    # --- voters -----------------------------------------------------------------------------------------------------

    def reconfigure(self) -> None:
        self.scenario.operator.change_a_voter()

    def upgrade(self) -> None:
        self.scenario.operator.upgrade_kraft_version()


PROCESSES = (
    "kill",
    "kill_all",
    "power",
    "power_all",
    "crash_in_file_operation",
    "crash_in_installation",
    "stop",
    "resign",
    "pause",
    "clock_jump",
)
NETWORK = ("isolate", "split", "one_way", "flap", "reset", "drop", "duplicate", "delay")
DISKS = ("slow_disk", "failed_write", "failed_sync", "full_disk", "write_back")
BROKERS = ("broker_kill", "broker_pause", "broker_leave", "broker_cut", "broker_directory", "broker_repeat")
DAMAGE = ("bit_flip", "zeroed_sector", "misdirected_write", "wipe")
ALL = (*PROCESSES, *NETWORK, *DISKS, *DAMAGE, "reconfigure")
"""Change any quorum; a static one may be upgraded too."""
