"""A member of a group of Kafka Streams (KIP-1071), without the application: it sends the heartbeats that one sends."""

import datetime as dt
import io
import socket
from typing import Any
from uuid import uuid4

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.streams_group_heartbeat.v0 import request as sent
from kio.schema.streams_group_heartbeat.v0 import response as received
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

API_KEY = 88
NOT_YET = (14, 15, 16)
"""Codes of a coordinator that is not there yet."""


class StreamsMember:
    """Joins a group with a topology of one subtopology, which reads a topic and keeps a store."""

    def __init__(self, address: str, group_id: str, topic: str, changelog: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), 60)
        self._group_id = GroupId(group_id)
        self._member_id = str(uuid4())
        self._epoch = 0
        store = sent.TopicInfo(
            name=TopicName(changelog), partitions=i32(0), replication_factor=i16(1), topic_configs=()
        )
        part = sent.Subtopology(
            subtopology_id="0",
            source_topics=(TopicName(topic),),
            state_changelog_topics=(store,),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        self._topology = sent.Topology(epoch=i32(0), subtopologies=(part,))
        self._active: tuple[Any, ...] = ()

    def heartbeat(self) -> list[int]:
        """Send one heartbeat and return the partitions of the active tasks."""
        joins = self._epoch == 0
        message = sent.StreamsGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=i32(self._epoch),
            endpoint_information_epoch=i32(0),
            rebalance_timeout=i32Timedelta.parse(dt.timedelta(seconds=60)),
            topology=self._topology if joins else None,
            active_tasks=tuple(
                sent.TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions) for each in self._active
            ),
            standby_tasks=(),
            warmup_tasks=(),
            process_id="process" if joins else None,
            client_tags=() if joins else None,
            task_offsets=None,
            task_end_offsets=None,
        )
        answer = self._ask(message)
        if int(answer.error_code) in NOT_YET:
            return []
        assert int(answer.error_code) == 0, answer
        self._epoch = int(answer.member_epoch)
        if answer.active_tasks is not None:
            self._active = answer.active_tasks
        return [int(index) for each in self._active for index in each.partitions]

    def close(self) -> None:
        """Disconnect without leaving."""
        self._connection.close()

    def _ask(self, message: sent.StreamsGroupHeartbeatRequest) -> Any:
        buffer = io.BytesIO()
        header = RequestHeader(
            request_api_key=i16(API_KEY), request_api_version=i16(0), correlation_id=i32(1), client_id="streams"
        )
        entity_writer(RequestHeader)(buffer, header)
        entity_writer(sent.StreamsGroupHeartbeatRequest)(buffer, message)
        data = buffer.getvalue()
        self._connection.sendall(len(data).to_bytes(4) + data)
        with self._connection.makefile("rb") as stream:
            body = stream.read(int.from_bytes(stream.read(4)))
        _, size = entity_reader(ResponseHeader)(body, 0)
        answer, _ = entity_reader(received.StreamsGroupHeartbeatResponse)(body, size)
        return answer
