"""The models of Confluent's REST proxy (Java) and of its SDK for Go read the answers of the REST API without a loss.

No registry has them, so they are built by hand from their repositories. `CONCLAVE_KAFKA_REST_CLASSES` is a class path
with io.confluent.kafkarest.entities.v3 and Jackson with its modules for Guava, Java 8 and times;
`CONCLAVE_KAFKA_REST_GO` is the folder of the module kafkarestv3.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.groups import commit, member, new_topic
from tests.app.live import ADMIN_TOKEN, LiveWeb, combined_node, running_web

PROGRAMS = Path(__file__).parent / "confluent"
CLASSES = os.environ.get("CONCLAVE_KAFKA_REST_CLASSES", "")
GO_MODULE = os.environ.get("CONCLAVE_KAFKA_REST_GO", "")
TOPIC, GROUP = "confluent-models", "confluent-readers"
ANSWERS = {
    "": "GetClusterResponse",
    "/topics": "ListTopicsResponse",
    f"/topics/{TOPIC}": "GetTopicResponse",
    f"/topics/{TOPIC}/configs": "ListTopicConfigsResponse",
    f"/topics/{TOPIC}/configs/retention.ms": "GetTopicConfigResponse",
    "/topics/-/configs": "ListTopicConfigsResponse",
    f"/topics/{TOPIC}/partitions": "ListPartitionsResponse",
    f"/topics/{TOPIC}/partitions/0": "GetPartitionResponse",
    f"/topics/{TOPIC}/partitions/0/offset?offset_type=earliest_and_latest": "ListPartitionOffsetsResponse",
    f"/topics/{TOPIC}/partitions/0/replicas": "ListReplicasResponse",
    f"/topics/{TOPIC}/partitions/0/replicas/1": "GetReplicaResponse",
    "/topics/-/partitions/-/reassignment": "ListAllReassignmentsResponse",
    f"/topics/{TOPIC}/partitions/-/reassignment": "SearchReassignmentsByTopicResponse",
    "/brokers": "ListBrokersResponse",
    "/brokers/1": "GetBrokerResponse",
    "/brokers/1/configs": "ListBrokerConfigsResponse",
    "/brokers/1/configs/num.partitions": "GetBrokerConfigResponse",
    "/brokers/1/partition-replicas": "SearchReplicasByBrokerResponse",
    "/brokers/-/configs": "ListBrokerConfigsResponse",
    "/broker-configs": "ListClusterConfigsResponse",
    "/consumer-groups": "ListConsumerGroupsResponse",
    f"/consumer-groups/{GROUP}": "GetConsumerGroupResponse",
    f"/consumer-groups/{GROUP}/consumers": "ListConsumersResponse",
    f"/consumer-groups/{GROUP}/lag-summary": "GetConsumerGroupLagSummaryResponse",
    f"/consumer-groups/{GROUP}/lags": "ListConsumerLagsResponse",
    f"/consumer-groups/{GROUP}/lags/{TOPIC}/partitions/0": "GetConsumerLagResponse",
    "/acls": "SearchAclsResponse",
}
"""Models of Confluent's REST proxy by the path below a cluster."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@contextmanager
def filled_web(folder: Path) -> Iterator[LiveWeb]:
    """A web process beside a node with a topic and a group that has a member."""
    with combined_node(folder) as node, running_web(folder / "web", node.bootstrap) as web:
        web.wait_ready().wait_for_broker()
        new_topic(web, node, TOPIC, {0: 3, 1: 2})
        commit(node, GROUP, TOPIC, {0: 1, 1: 2})
        with member(node, GROUP, TOPIC):
            yield web


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not CLASSES, reason="needs the classes of Confluent's REST proxy")
def test_the_models_of_the_rest_proxy_read_every_answer(tmp_path: Path) -> None:
    with filled_web(tmp_path) as web:
        address = f"{web.url}{web.cluster}"
        pairs = [word for pair in ANSWERS.items() for word in pair]
        assert (
            run(["java", "-cp", CLASSES, str(PROGRAMS / "Decode.java"), address, ADMIN_TOKEN, *pairs], tmp_path) == ""
        )


@pytest.mark.skipif(not GO_MODULE, reason="needs Confluent's SDK for Go")
def test_the_models_of_the_go_sdk_lack_nothing(tmp_path: Path) -> None:
    module = "github.com/confluentinc/kafka-rest-sdk-go/kafkarestv3"
    program = tmp_path / "program"
    program.mkdir()
    shutil.copy(PROGRAMS / "decode.go", program)
    (program / "go.mod").write_text(
        f"module decode\n\ngo 1.21\n\nrequire {module} v0.0.0\n\nreplace {module} => {GO_MODULE}\n"
    )
    run(["go", "mod", "tidy"], program)
    with filled_web(tmp_path) as web:
        cluster = web.cluster.rpartition("/")[2]
        given = [f"{web.url}/kafka/v3", ADMIN_TOKEN, cluster, TOPIC, GROUP, "1"]
        assert run(["go", "run", ".", *given], program) == ""
