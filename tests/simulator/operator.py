"""The operator of the cluster: restarts nodes, frees disk space, replaces disks, changes voters.

Data may be destroyed only while the quorum tolerates it: of every voter set that any node knows, also after the next
addition, at most a minority may be lost. A replaced disk counts as lost until its old key has left the set, because it
is another replica (KIP-853) and does not know the votes of the old one. Static quorums know voters by id alone, so an
empty disk would vote in the name of the full one: there no disk is destroyed.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from kraft_core.raft.events import Timer
from kraft_core.raft.voter_set import ReplicaKey, VoterSet
from tests.simulator.invariant import check
from tests.simulator.sim_node import SimNode
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.simulator.scenario import Scenario

VISIT_US = SECOND_US // 2


class Operator:
    """Operates the nodes of one run."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.world = scenario.world
        self.random = scenario.world.random
        self.nodes = scenario.nodes
        self.replaced: list[ReplicaKey] = []  # voters whose disk is gone
        self.disks_replaced = self.kraft_upgrades = 0
        for node in self.nodes:
            node.on_stopped = self._on_stopped

    # --- tolerated losses -------------------------------------------------------------------------------------------

    def _is_whole(self, key: ReplicaKey, without: SimNode | None) -> bool:
        return any(each.key == key and each is not without and not each.disk.is_damaged for each in self.nodes)

    def _survives(self, voters: VoterSet, without: SimNode | None) -> bool:
        whole = sum(self._is_whole(voter.key, without) for voter in voters.by_id.values())
        return whole >= voters.majority

    def _survives_additions(self, voters: VoterSet, without: SimNode) -> bool:
        """Report the same for the set with any other node added; a running node may have undetected damage."""
        whole = sum(self._is_whole(voter.key, without) for voter in voters.by_id.values())
        others = (node for node in self.nodes if node.id not in voters.by_id)
        return all(whole + self._is_whole(node.key, without) > (len(voters) + 1) // 2 for node in others)

    def may_destroy(self, node: SimNode) -> bool:
        """Report whether the quorum tolerates the loss of this node's disk too."""
        if not node.is_dynamic or node.disk.is_damaged:
            return False
        committed_end = self.scenario.oracle.committed_end
        known = [each.voters for each in self.nodes]
        known += [
            each.previous_voters for each in self.nodes if each.voters_changed_end > committed_end
        ]  # may be undone
        return all(
            self._survives(voters, node) and self._survives_additions(voters, node) for voters in known if len(voters)
        )

    # --- nodes that stopped -----------------------------------------------------------------------------------------

    def start(self, node: SimNode) -> None:
        """Start a node, unless its disk must be repaired first."""
        if node.node is None and node.stopped_by is None:
            node.start()

    def _on_stopped(self, node: SimNode) -> None:
        self.world.after(int(self.random.random() * SECOND_US), self._visit, node, node.incarnation)

    def _visit(self, node: SimNode, incarnation: int) -> None:
        """Repair what the last log line names, then start the node."""
        if node.node is not None or node.incarnation != incarnation or node.stopped_by is None:
            return
        disk = node.disk
        if any(cause in str(node.stopped_by) for cause in ("no space left", "I/O error")):
            disk.free_bytes = None
            if self.random.random() < 0.5:  # a restart is not enough here: the machine must be reset
                disk.lose_power(leaves_holes=False)
            node.start()
            return
        check(disk.is_damaged, "a start was refused on an undamaged disk", node, node.stopped_by)
        self.replace_disk(node)

    def replace_disk(self, node: SimNode) -> None:
        """Replace the disk by an empty one with a new directory id; the node joins by a voter change."""
        self.world.note("disk replaced", node.id)
        self.disks_replaced += 1
        self.replaced.append(node.key)
        node.format(UUID(int=self.random.getrandbits(127) | 1 << 120), None)
        node.start()
        self.world.after(VISIT_US, self._rejoin, node, node.key)

    def _rejoin(self, node: SimNode, key: ReplicaKey) -> None:
        """Remove the old replica and add the new one, with retries."""
        if node.key != key:
            return
        leader = self._leader()
        if leader is not None:
            known = leader.raft.voters.by_id.get(node.id)
            if known is not None and known.key == key:
                return
            if known is not None:
                self._remove(leader, known.key)
            elif node.node is not None:
                self._add(leader, node)
        self.world.after(VISIT_US, self._rejoin, node, key)

    # --- voters -----------------------------------------------------------------------------------------------------

    def _leader(self) -> SimNode | None:
        return next((node for node in self.nodes if node.is_leader and not node.is_paused), None)

    def change_a_voter(self) -> None:
        """Let a leader add or remove a random node, if the remaining voters keep a majority."""
        leader, target = self._leader(), self.random.choice(self.nodes)
        if leader is None:
            return
        voters = leader.raft.voters
        known = voters.by_id.get(target.id)
        if known is None:
            self._add(leader, target)
            return
        rest = voters.without_voter(known.key)
        if rest is not None and self._survives(rest, None):
            self._remove(leader, known.key)

    def upgrade_kraft_version(self) -> None:
        """Upgrade a static quorum when a leader knows every voter's directory."""
        leader = self._leader()
        if leader is None or leader.raft.kraft_version > 0:
            return
        assert leader.node is not None
        try:
            leader.node.upgrade_kraft_version(1, validate_only=False)
        except KafkaError:
            if self.scenario.faults.is_on:
                self.world.after(VISIT_US // 5, self.upgrade_kraft_version)
        else:
            self.kraft_upgrades += 1
            leader.deliver(leader.incarnation, Timer())

    def _remove(self, leader: SimNode, key: ReplicaKey) -> None:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)
        leader.receive(request, 0, leader.admin)

    def _add(self, leader: SimNode, node: SimNode) -> None:
        listeners = tuple(
            AddRaftVoterRequestListener(name=each.name, host=each.host, port=each.port)
            for each in node.config.raft.endpoints
        )
        request = AddRaftVoterRequest(
            cluster_id=leader.config.raft.cluster_id,
            voter_id=node.id,
            voter_directory_id=node.key.directory_id,
            listeners=listeners,
        )
        leader.receive(request, 1, leader.admin)
