"""A quorum of ours and one of Apache's that differ only in ports: the same request to both, answers compared.

Both have two voters with the same cluster, node and directory ids. What may differ between two runs of one program is
replaced by words before the comparison: the leader ("leader"), the epoch ("epoch+1"), ports, offsets and times.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    AllocateProducerIdsRequest,
    ApiVersionsRequest,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, uuid_from_text
from kraft_core.protocol.wire import Message
from tests.interop.conclave import Quorum, call, describe_quorum
from tests.interop.kafka import PATIENCE_S

CLOSED = "closed"
SILENT = "silent"
NODE_FIELDS = {"leader_id", "node_id", "replica_id", "controller_id", "broker_id"}
EPOCH_FIELDS = {"leader_epoch", "epoch"}
OFFSET_FIELDS = {"high_watermark", "log_end_offset", "log_start_offset", "end_offset", "finalized_features_epoch"}
NOT_COMPARED = {"last_fetch_timestamp", "last_caught_up_timestamp", "throttle_time_ms", "records"}
"""Fields that depend on time or on a no-op record."""
TEXT_FIELDS = {"error_message"}


@dataclass(frozen=True)
class View:
    """The state of a quorum that requests depend on: leader, epoch and end of the log."""

    quorum: Quorum
    leader: int
    epoch: int
    high_watermark: int

    @property
    def follower(self) -> int:
        """Return the id of the voter that does not lead."""
        return 3 - self.leader

    @property
    def term(self) -> tuple[int, int]:
        """Return the leader and its epoch."""
        return self.leader, self.epoch

    @property
    def cluster_id(self) -> str:
        """Return the cluster id, which is equal in both quorums."""
        return self.quorum.cluster_id

    def node(self, role: str) -> int:
        """Return the id of the "leader" or "follower"."""
        return self.leader if role == "leader" else self.follower

    def directory(self, node_id: int) -> UUID:
        """Return the directory id of a voter."""
        return uuid_from_text(self.quorum.directory_ids[node_id - 1])

    def port(self, role: str) -> int:
        """Return the port of the "leader" or "follower"."""
        return self.quorum.port_of(self.node(role))

    def said(self, answer: Any) -> Any:
        """Return an answer in words that are equal for both quorums."""
        return self._value("", answer)

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Message):
            fields = {each: self._value(each, getattr(value, each)) for each in value.__struct_fields__}
            return {each: found for each, found in fields.items() if each not in NOT_COMPARED}
        if isinstance(value, tuple):
            return sorted((self._value(name, each) for each in value), key=repr)
        if name in NODE_FIELDS and value in {1, 2}:
            return "leader" if value == self.leader else "follower"
        if name in EPOCH_FIELDS and value > 0:
            return f"epoch+{value - self.epoch}" if value > self.epoch else f"epoch{value - self.epoch:-d}"
        if name in OFFSET_FIELDS:
            return "some" if value > 0 else value
        if name == "replica_directory_id" and value in {self.directory(1), self.directory(2)}:
            return f"directory of {'leader' if value == self.directory(self.leader) else 'follower'}"
        if name == "port" and value in self.quorum.ports:
            return f"port of {'leader' if self.quorum.ports.index(value) + 1 == self.leader else 'follower'}"
        if name in TEXT_FIELDS:
            return bool(value)
        if name == "topic_id" and value not in {ZERO_UUID, METADATA_TOPIC_ID}:
            return "drawn"
        if name == "unaligned_records":
            return bool(value)
        return value


@dataclass
class Twins:
    """Both running quorums."""

    ours: Quorum
    apache: Quorum

    @property
    def both(self) -> tuple[Quorum, Quorum]:
        """Return ours, then Apache's."""
        return self.ours, self.apache


def twin_quorums(folder: Path, **settings: object) -> Twins:
    """Return both quorums, formatted."""
    extra = {key.replace("_", "."): value for key, value in settings.items()}
    ours = Quorum(folder / "ours", 2, extra)
    apache = Quorum(folder / "apache", 2, extra, cluster_id=ours.cluster_id)
    apache.directory_ids = ours.directory_ids
    for quorum in (ours, apache):
        for node_id in quorum.node_ids:
            quorum.format(node_id)
    return Twins(ours, apache)


@contextmanager
def running_twins(folder: Path, **settings: object) -> Iterator[Twins]:
    """Yield both quorums with a leader each. They are killed at the end.

    Timeouts are long, so that a busy machine causes no elections.
    """
    twins = twin_quorums(folder, **{"controller_quorum_fetch_timeout_ms": 6_000, **settings})
    try:
        for node_id in twins.ours.node_ids:
            twins.apache.start_apache(node_id)
            twins.ours.start(node_id)
        for quorum in twins.both:
            quorum.wait_for_leader()
        asyncio.run(_leave_the_first_epochs(twins))
        asyncio.run(_until_loaded(twins))
        yield twins
    finally:
        for quorum in twins.both:
            quorum.stop_all()


async def _leave_the_first_epochs(twins: Twins) -> None:
    """Raise the epoch, so that an earlier epoch is stale and not invalid."""
    partition = VoteRequestPartitionData(partition_index=0, replica_epoch=5, replica_id=9, last_offset_epoch=0)
    topic = VoteRequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
    for quorum in twins.both:
        async with asyncio.timeout(PATIENCE_S):
            while (found := await view(quorum)).epoch < 5:
                await ask(found.port("leader"), VoteRequest(topics=(topic,)), 0)


async def view(quorum: Quorum, timeout_s: float = PATIENCE_S) -> View:
    """Return the view once the leader has committed in its epoch and serves, and its follower has fetched twice."""
    seen: set[tuple[int, int]] = set()  # leader epoch and time of the follower's last fetch
    async with asyncio.timeout(timeout_s):
        while True:
            found = await quorum.leader()
            partition = None if found is None else await describe_quorum(quorum.port_of(found[0]))
            if found is not None and partition is not None and partition.high_watermark > 0:
                epoch = partition.leader_epoch
                (follower,) = (each for each in partition.current_voters if each.replica_id != found[0])
                seen = {each for each in seen if each[0] == epoch} | {(epoch, follower.last_fetch_timestamp)}
                is_settled = len(seen) > 2 and follower.log_end_offset >= partition.high_watermark
                if is_settled and await _is_active(quorum.port_of(found[0])):
                    return View(quorum, found[0], epoch, partition.high_watermark)
            await asyncio.sleep(0.05)


async def _until_loaded(twins: Twins) -> None:
    """Wait until every node reports the finalized features, which it reads after the election."""
    body = ApiVersionsRequest(client_software_name="twin", client_software_version="1")
    async with asyncio.timeout(PATIENCE_S):
        for port in (*twins.ours.ports, *twins.apache.ports):
            while not getattr(await ask(port, body, 3), "finalized_features", ()):
                await asyncio.sleep(0.05)


def epoch_at(port: int) -> int:
    """Return the epoch of this leader, once it reports that it leads."""

    async def poll() -> int:
        async with asyncio.timeout(PATIENCE_S):
            while (found := await describe_quorum(port)) is None:
                await asyncio.sleep(0.05)
        return int(found.leader_epoch)

    return asyncio.run(poll())


async def _is_active(port: int) -> bool:
    """Report whether this leader's controller is active, which it becomes some time after the election."""
    try:
        answer = await call(port, AllocateProducerIdsRequest(broker_id=77, broker_epoch=7), 0)
    except (OSError, EOFError, TimeoutError):
        return False
    return answer.error_code == ErrorCode.STALE_BROKER_EPOCH


async def send(port: int, data: bytes, timeout_s: float = PATIENCE_S) -> bytes | str:
    """Send bytes. Return the first answer's frame, CLOSED or SILENT."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(data)
                size = await reader.readexactly(4)
                return await reader.readexactly(int.from_bytes(size))
            except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
                return CLOSED
            finally:
                writer.close()
    except TimeoutError:
        return SILENT


async def ask(port: int, message: Message, version: int, timeout_s: float = PATIENCE_S) -> Message | str:
    """Send a request. Return its answer, CLOSED or SILENT."""
    found = await send(port, encode_request(message, version, 7, "twin"), timeout_s)
    return found if isinstance(found, str) else decode_response(message.API_KEY, version, found)[1]
