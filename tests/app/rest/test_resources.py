"""Every read has REST v3's members, the documented additions, and no others."""

import pytest
from pydantic import TypeAdapter

from app.rest.schemas.acls import AclDataList
from app.rest.schemas.brokers import BrokerData, BrokerDataList, LogDirectoryDataList
from app.rest.schemas.clusters import ClusterData, ClusterDataList, ProducerIdsData
from app.rest.schemas.configs import (
    BrokerConfigData,
    BrokerConfigDataList,
    ClientMetricsConfigData,
    ClientMetricsConfigDataList,
    ClusterConfigDataList,
    ConsumerGroupConfigData,
    ConsumerGroupConfigDataList,
    TopicConfigData,
    TopicConfigDataList,
)
from app.rest.schemas.controllers import ControllerData, ControllerDataList
from app.rest.schemas.delegation_tokens import DelegationTokenDataList
from app.rest.schemas.features import FeatureDataList
from app.rest.schemas.log_events import (
    BrokerEventDataList,
    BrokerFlapsDataList,
    FeatureChangeDataList,
    LeaderElectionDataList,
    PartitionFlapsDataList,
)
from app.rest.schemas.partitions import (
    PartitionData,
    PartitionDataList,
    ReassignmentDataList,
    ReplicaData,
    ReplicaDataList,
)
from app.rest.schemas.quorum import QuorumData, QuorumEpochDataList
from app.rest.schemas.quotas import ClientQuotaDataList
from app.rest.schemas.records import ChangeDataList
from app.rest.schemas.scram import ScramUserDataList
from app.rest.schemas.topics import TopicData, TopicDataList
from tests.app.live import LiveWeb
from tests.interop import kafka

TOPIC = "resources.topic"


@pytest.fixture(scope="module", autouse=True)
def topic(web: LiveWeb) -> None:
    body = {"topic_name": TOPIC, "partitions_count": 2, "configs": [{"name": "cleanup.policy", "value": "compact"}]}
    answer = web.client.post(f"{web.cluster}/topics", json=body)
    assert answer.status_code == 201, answer.text
    assert web.call(web.services.cluster.log_events.survey(30)).is_whole


READS = [
    ("", ClusterData),
    ("/brokers", BrokerDataList),
    ("/brokers/1", BrokerData),
    ("/brokers/-/configs?page_size=20", BrokerConfigDataList),
    ("/brokers/1/configs", BrokerConfigDataList),
    ("/brokers/1/configs/log.retention.hours", BrokerConfigData),
    ("/brokers/1/partition-replicas", ReplicaDataList),
    ("/broker-configs", ClusterConfigDataList),
    ("/topics", TopicDataList),
    ("/topics/-/configs?page_size=40", TopicConfigDataList),
    ("/topics/never-created/default-configs", TopicConfigDataList),
    ("/topics/-/partitions?page_size=100", PartitionDataList),
    ("/topics/-/partitions/-/reassignment", ReassignmentDataList),
    (f"/topics/{TOPIC}", TopicData),
    (f"/topics/{TOPIC}/configs", TopicConfigDataList),
    (f"/topics/{TOPIC}/configs/cleanup.policy", TopicConfigData),
    (f"/topics/{TOPIC}/partitions", PartitionDataList),
    (f"/topics/{TOPIC}/partitions/0", PartitionData),
    (f"/topics/{TOPIC}/partitions/-/reassignment", ReassignmentDataList),
    (f"/topics/{TOPIC}/partitions/0/replicas", ReplicaDataList),
    (f"/topics/{TOPIC}/partitions/0/replicas/1", ReplicaData),
    ("/brokers/1/log-directories", LogDirectoryDataList),
    ("/controllers", ControllerDataList),
    ("/controllers/1", ControllerData),
    ("/producer-ids", ProducerIdsData),
    ("/features", FeatureDataList),
    ("/acls", AclDataList),
    ("/scram-users", ScramUserDataList),
    ("/client-quotas", ClientQuotaDataList),
    ("/delegation-tokens", DelegationTokenDataList),
    ("/consumer-groups/billing/configs", ConsumerGroupConfigDataList),
    ("/consumer-groups/billing/configs/consumer.session.timeout.ms", ConsumerGroupConfigData),
    ("/client-metrics/all/configs", ClientMetricsConfigDataList),
    ("/client-metrics/all/configs/interval.ms", ClientMetricsConfigData),
    ("/quorum", QuorumData),
    ("/quorum/epochs", QuorumEpochDataList),
    ("/metadata/records", ChangeDataList),
    ("/brokers/1/timeline", BrokerEventDataList),
    ("/metadata/partition-flaps?window=all&by=leader", PartitionFlapsDataList),
    ("/metadata/broker-flaps?from_offset=1", BrokerFlapsDataList),
    ("/metadata/unclean-elections?topic_name=x&partition_id=0", LeaderElectionDataList),
    ("/metadata/feature-changes", FeatureChangeDataList),
]


@pytest.mark.parametrize(("path", "model"), READS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_read_has_exactly_the_members_of_its_model(web: LiveWeb, path: str, model: type) -> None:
    answer = web.client.get(web.cluster + path)
    assert answer.status_code == 200, answer.text
    TypeAdapter(model).validate_json(answer.content)
    assert int(answer.headers["X-Metadata-Offset"]) > 0
    assert answer.json()["metadata"]["self"].startswith(web.url)


def test_the_list_of_clusters_contains_the_followed_cluster(web: LiveWeb) -> None:
    answer = web.client.get("/v3/clusters")
    listed = ClusterDataList.model_validate_json(answer.content)
    assert [cluster.metadata.self for cluster in listed.data] == [web.url + web.cluster]
    assert listed.data[0].metadata.resource_name == f"crn:///kafka={listed.data[0].cluster_id}"


def test_related_links_of_a_topic_can_be_followed(web: LiveWeb) -> None:
    topic = web.client.get(f"{web.cluster}/topics/{TOPIC}").json()
    for member in ("partitions", "configs", "partition_reassignments"):
        assert web.client.get(topic[member]["related"]).status_code == 200


def test_the_quorum_has_the_leader_and_its_epoch(web: LiveWeb) -> None:
    quorum = web.client.get(f"{web.cluster}/quorum").json()
    assert quorum["is_live"]
    assert quorum["leader_id"] == 1
    assert [voter["replica_id"] for voter in quorum["voters"]] == [1]
    epochs = web.client.get(f"{web.cluster}/quorum/epochs").json()["data"]
    assert epochs[0]["leader_epoch"] == quorum["leader_epoch"]


def test_configs_of_server_properties_are_shown_as_static(web: LiveWeb) -> None:
    """The log does not contain them: the broker is asked in the background, and again after 30 s."""

    def is_static() -> bool:
        config = web.client.get(f"{web.cluster}/brokers/1/configs/log.retention.hours").json()
        return (config["value"], config["source"]) == ("167", "STATIC_BROKER_CONFIG")

    kafka.wait_until(is_static, 90, "the broker has reported its configs")
    topic = web.client.get(f"{web.cluster}/topics/{TOPIC}/configs/retention.ms").json()
    assert (topic["value"], topic["source"]) == (str(167 * 3_600_000), "STATIC_BROKER_CONFIG")


def test_a_config_has_a_type_documentation_and_sources(web: LiveWeb) -> None:
    config = web.client.get(f"{web.cluster}/topics/{TOPIC}/configs/cleanup.policy").json()
    assert (config["value"], config["source"], config["type"]) == ("compact", "DYNAMIC_TOPIC_CONFIG", "LIST")
    assert config["documentation"]
    assert config["synonyms"][0] == {"name": "cleanup.policy", "value": "compact", "source": "DYNAMIC_TOPIC_CONFIG"}


def test_default_configs_are_those_of_a_topic_that_sets_none(web: LiveWeb) -> None:
    listed = web.client.get(f"{web.cluster}/topics/{TOPIC}/default-configs").json()["data"]
    (policy,) = [each for each in listed if each["name"] == "cleanup.policy"]
    assert (policy["value"], policy["is_default"], policy["topic_name"]) == ("delete", True, TOPIC)
    refused = web.client.get(f"{web.cluster}/topics/a%20name/default-configs")
    assert (refused.status_code, "a name" in refused.text) == (400, True), refused.text


def test_all_pages_together_contain_every_item_once(web: LiveWeb) -> None:
    whole = web.client.get(f"{web.cluster}/topics/{TOPIC}/configs").json()
    names: list[str] = []
    url = f"{web.cluster}/topics/{TOPIC}/configs?page_size=7"
    while url:
        page = web.client.get(url).json()
        assert len(page["data"]) <= 7
        names += [config["name"] for config in page["data"]]
        url = page["metadata"]["next"]
    assert names == [config["name"] for config in whole["data"]]


def test_all_pages_of_all_topic_configs_contain_every_item_once(web: LiveWeb) -> None:
    for number in range(3):
        web.client.post(f"{web.cluster}/topics", json={"topic_name": f"resources.many.{number}"})
    found: list[tuple[str, str]] = []
    url = f"{web.cluster}/topics/-/configs?page_size=45"
    while url:
        page = web.client.get(url).json()
        found += [(config["topic_name"], config["name"]) for config in page["data"]]
        url = page["metadata"]["next"]
    topics = [topic["topic_name"] for topic in web.client.get(f"{web.cluster}/topics").json()["data"]]
    expected = [
        (topic, config["name"])
        for topic in topics
        for config in web.client.get(f"{web.cluster}/topics/{topic}/configs").json()["data"]
    ]
    assert found == expected


def test_openapi_describes_every_endpoint(web: LiveWeb) -> None:
    described = web.http().get("/openapi.json").json()["paths"]
    assert "/v3/clusters/{cluster_id}/topics/{topic_name}/configs:alter" in described
    assert "/v3/clusters/{cluster_id}/metadata/watch" in described
    assert described["/v3/clusters/{cluster_id}/topics"]["get"]["responses"]["200"]["content"]["application/json"]


def test_log_directories_count_the_replicas_that_are_assigned_to_them(web: LiveWeb) -> None:
    answer = web.client.get(f"{web.cluster}/brokers/1/log-directories")
    directories = LogDirectoryDataList.model_validate_json(answer.content).data
    broker = BrokerData.model_validate_json(web.client.get(f"{web.cluster}/brokers/1").content)
    assert [each.directory_id for each in directories] == broker.log_directories
    replicas = ReplicaDataList.model_validate_json(
        web.client.get(f"{web.cluster}/brokers/1/partition-replicas").content
    ).data
    for each in directories:
        assert each.replicas_count == sum(replica.directory_id == each.directory_id for replica in replicas) > 0


def test_a_controller_has_its_listeners_and_features(web: LiveWeb) -> None:
    found = ControllerData.model_validate_json(web.client.get(f"{web.cluster}/controllers/1").content)
    assert found.is_leader
    assert [f"{at.host}:{at.port}" for at in found.listeners] == list(web.services.settings.bootstrap_controllers)
    assert {each.feature_name: each.highest_level for each in found.features}["metadata.version"] == 30
    assert web.client.get(f"{web.cluster}/controllers/9").status_code == 404


def test_the_timeline_and_the_feature_levels_begin_with_the_log(web: LiveWeb) -> None:
    events = web.client.get(f"{web.cluster}/brokers/1/timeline").json()
    assert events["first_offset"] == 0
    assert [(each["event"], each["is_current"]) for each in events["data"]][-2:] == [
        ("unfenced", len(events["data"]) == 2),
        ("registered", False),
    ]
    assert events["data"][0]["state_after"] == "active"
    one = web.client.get(f"{web.cluster}/brokers/1/timeline?page_size=1").json()
    assert [each["offset"] for each in one["data"]] == [events["data"][0]["offset"]]
    assert [each["event"] for each in web.client.get(one["metadata"]["next"]).json()["data"]][-1:] == ["registered"]
    assert web.client.get(f"{web.cluster}/brokers/77/timeline").status_code == 404
    levels = web.client.get(f"{web.cluster}/metadata/feature-changes").json()["data"]
    assert ("metadata.version", 0) in {(each["feature_name"], each["level_before"]) for each in levels}
    wrong = web.client.get(f"{web.cluster}/metadata/broker-flaps?from_offset=5&to_offset=4")
    assert (wrong.status_code, "greater than the last" in wrong.text) == (400, True)
