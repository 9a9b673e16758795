"""The fetch session with one broker: which partitions a request must name, and what an answer does to the session.

The first request is full and names all partitions; if the broker opens a session, later ones name only partitions that
were added, changed or replaced (a new topic of the same name), and those to forget. Any error begins a new session.

Source: FetchSessionHandler, FetchMetadata of Kafka 4.3.1; KIP-227, KIP-516 (topic ids).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from kraft_core.clients.client_metadata import NO_EPOCH, TopicPartition
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestForgottenTopic,
    FetchResponse,
    FetchResponsePartitionData,
)

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
FIRST_VERSION_WITH_IDS: Final = 13
_EPOCH_MAX: Final = 2**31 - 1


class PartitionData(msgspec.Struct, frozen=True, gc=False):
    """What is asked of one partition. Source: FetchRequest.PartitionData."""

    topic_id: UUID
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class FetchRequestData:
    """One request: the partitions to name, those to forget, and all of the session with what is asked of them."""

    topics: tuple[FetchRequestFetchTopic, ...]
    forgotten: tuple[FetchRequestForgottenTopic, ...]
    session_partitions: Mapping[TopicPartition, PartitionData]
    session_id: int
    epoch: int
    can_use_topic_ids: bool

    @property
    def max_version(self) -> int | None:
        """The highest version of Fetch: without an id of every topic, the last one with names."""
        return None if self.can_use_topic_ids else FIRST_VERSION_WITH_IDS - 1


class FetchSessionHandler:
    """The session with one broker."""

    def __init__(self) -> None:
        self.session_id = INVALID_SESSION_ID
        self.epoch = INITIAL_EPOCH
        self.session_partitions: dict[TopicPartition, PartitionData] = {}
        self._topic_names: dict[UUID, str] = {}

    def build(self, partitions: Mapping[TopicPartition, PartitionData]) -> FetchRequestData:
        """Return the next request, which asks for exactly these partitions."""
        can_use_topic_ids = all(data.topic_id.int for data in partitions.values())
        is_full = self.epoch in {INITIAL_EPOCH, FINAL_EPOCH}
        before = {} if is_full else self.session_partitions
        named = {key: data for key, data in partitions.items() if before.get(key) != data}
        forgotten = [(key, data.topic_id) for key, data in before.items() if key not in partitions]
        if any(not topic_id.int for _, topic_id in forgotten):
            can_use_topic_ids = False
        for key, data in named.items():
            old = before.get(key)
            if old is not None and old.topic_id != data.topic_id and can_use_topic_ids and old.topic_id.int:
                forgotten.append((key, old.topic_id))  # a new topic of that name
        self.session_partitions = dict(partitions)
        self._topic_names = {data.topic_id: key.topic for key, data in partitions.items()} if can_use_topic_ids else {}
        return FetchRequestData(
            _topics(named),
            _forgotten(forgotten),
            self.session_partitions,
            self.session_id,
            self.epoch,
            can_use_topic_ids,
        )

    def handle_response(
        self, response: FetchResponse, version: int
    ) -> dict[TopicPartition, FetchResponsePartitionData] | None:
        """Take an answer; return its partitions, None if it cannot be used and a new session begins."""
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._restart(INVALID_SESSION_ID)
            return None
        if response.error_code != ErrorCode.NONE:
            self._restart(self.session_id)
            return None
        answered = self._answered(response, version)
        if self.epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            if answered is None or answered.keys() != self.session_partitions.keys():
                self._restart(INVALID_SESSION_ID)  # also the empty answer of a broker that throttles (KIP-219)
                return None
            self.session_id = response.session_id
            self.epoch = INITIAL_EPOCH if response.session_id == INVALID_SESSION_ID else 1
            return answered
        if answered is None:
            self._restart(self.session_id)
            return None
        if response.session_id == INVALID_SESSION_ID:
            self._restart(INVALID_SESSION_ID)
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return answered

    def handle_error(self) -> None:
        """Take a request without an answer: the broker may or may not have seen it."""
        self._restart(self.session_id)

    def notify_close(self) -> None:
        """Let the next request close the session."""
        self.epoch = FINAL_EPOCH

    def _restart(self, session_id: int) -> None:
        """Begin a new session; the broker closes the one named in that request."""
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH

    def _answered(
        self, response: FetchResponse, version: int
    ) -> dict[TopicPartition, FetchResponsePartitionData] | None:
        """Return the answered partitions; None if one of them is not of the session."""
        answered = {}
        for topic in response.responses:
            name = topic.topic if version < FIRST_VERSION_WITH_IDS else self._topic_names.get(topic.topic_id)
            if name is None:
                return None
            for partition in topic.partitions:
                key = TopicPartition(name, partition.partition_index)
                if key not in self.session_partitions:
                    return None
                answered[key] = partition
        return answered


def _topics(named: Mapping[TopicPartition, PartitionData]) -> tuple[FetchRequestFetchTopic, ...]:
    grouped: dict[tuple[str, UUID], list[FetchRequestFetchPartition]] = {}
    for (topic, partition), data in named.items():
        grouped.setdefault((topic, data.topic_id), []).append(
            FetchRequestFetchPartition(
                partition=partition,
                current_leader_epoch=data.current_leader_epoch,
                fetch_offset=data.fetch_offset,
                partition_max_bytes=data.max_bytes,
            )
        )
    return tuple(
        FetchRequestFetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in grouped.items()
    )


def _forgotten(partitions: Iterable[tuple[TopicPartition, UUID]]) -> tuple[FetchRequestForgottenTopic, ...]:
    grouped: dict[tuple[str, UUID], list[int]] = {}
    for (topic, partition), topic_id in partitions:
        grouped.setdefault((topic, topic_id), []).append(partition)
    return tuple(
        FetchRequestForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(indexes))
        for (topic, topic_id), indexes in grouped.items()
    )
