"""The names of raft's metrics, ours against those in Apache Kafka's own class."""

import re
from zipfile import ZipFile

import pytest

from tests.interop import kafka
from tests.raft.one_node import OneNode

pytestmark = pytest.mark.interop

KIP_853_ALONE = {"is-observer", "ignored-static-voters"}
"""Named by the KIP; in 4.3.1 the second is a metric of the controller, and the first is missing."""
NOT_METRICS = re.compile(rb"-metrics$|-voted$|^(commit|election)-latency$|^(fetch|append)-records$|^poll-idle-ratio$")


def test_raft_measures_what_kafkas_class_names_and_nothing_under_other_names() -> None:
    libs = kafka.require() / "libs"
    with ZipFile(libs / f"kafka-raft-{kafka.VERSION}.jar") as jar:
        data = jar.read("org/apache/kafka/raft/internals/KafkaRaftMetrics.class")
    constants = re.findall(rb"\x01\x00[\x08-\x28]([a-z]+(?:-[a-z]+)+)(?=[\x01-\x14])", data)
    kafkas = {each.decode() for each in constants if not NOT_METRICS.search(each)}
    leader = OneNode()
    leader.become_leader()
    assert set(leader.client.metrics(leader.now)) - KIP_853_ALONE == kafkas
