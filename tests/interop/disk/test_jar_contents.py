"""What Apache Kafka's jars contain by name, without running them: nothing is missing in ours."""

import re
from zipfile import ZipFile

import pytest

from kraft_core.protocol import control_records
from kraft_core.protocol.metadata_records import RECORD_CLASSES
from tests.interop import kafka
from tests.raft.one_node import OneNode

pytestmark = pytest.mark.interop

KIP_853_ALONE = {"is-observer", "ignored-static-voters"}
"""Metrics named by the KIP. In 4.3.1 the second belongs to the controller, and the first does not exist."""
NOT_METRICS = re.compile(rb"-metrics$|-voted$|^(commit|election)-latency$|^(fetch|append)-records$|^poll-idle-ratio$")


def jar(name: str) -> ZipFile:
    return ZipFile(kafka.require() / "libs" / f"{name}-{kafka.VERSION}.jar")


def classes_in(name: str, package: str) -> set[str]:
    with jar(name) as found:
        return {
            match[1]
            for each in found.namelist()
            if (match := re.fullmatch(rf"org/apache/kafka/{package}/(\w+)\.class", each))
        }


def test_every_metadata_record_of_kafka_is_here_as_a_type() -> None:
    kafkas = {each for each in classes_in("kafka-metadata", "common/metadata") if each.endswith("Record")}
    assert len(kafkas) == 26
    assert {each.__name__ for each in RECORD_CLASSES.values()} == kafkas


def test_every_control_record_of_kafka_is_here_as_a_type() -> None:
    schemas = classes_in("kafka-clients", "common/message")
    kafkas = {
        each
        for each in schemas
        if re.search(r"(KRaft|Voters|Snapshot)\w*Record$|^LeaderChangeMessage$|^EndTxnMarker$", each)
    }
    assert len(kafkas) == 6
    assert all(hasattr(control_records, each) for each in kafkas), kafkas


def test_control_records_have_kafkas_types_in_kafkas_order() -> None:
    """The types are numbered from 0 in both, in the order of the enum."""
    with jar("kafka-clients") as found:
        data = found.read("org/apache/kafka/common/record/internal/ControlRecordType.class")
    constants = data[: data.index(b"$VALUES")]
    kafkas = [each.decode() for each in re.findall(rb"\x01\x00[\x01-\x40]([A-Z_]{3,})(?=[\x01-\x14])", constants)]
    assert [*(each.name for each in control_records.ControlRecordType), "UNKNOWN"] == kafkas
    assert [*control_records.ControlRecordType] == [*range(len(kafkas) - 1)]


def test_raft_metrics_have_the_names_of_kafkas_class_and_no_others() -> None:
    with jar("kafka-raft") as found:
        data = found.read("org/apache/kafka/raft/internals/KafkaRaftMetrics.class")
    constants = re.findall(rb"\x01\x00[\x08-\x28]([a-z]+(?:-[a-z]+)+)(?=[\x01-\x14])", data)
    kafkas = {each.decode() for each in constants if not NOT_METRICS.search(each)}
    leader = OneNode()
    leader.become_leader()
    assert set(leader.client.metrics(leader.now)) - KIP_853_ALONE == kafkas
