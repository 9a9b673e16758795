"""Reads of the controller's state and configs: DescribeConfigs, DescribeQuorum, ApiVersions and others."""

from collections.abc import Iterator

from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestDescribeDelegationTokenOwner,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.interop.answers.controller_requests.case import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    Case,
    fixed,
)


def settings_of(
    *resources: tuple[int, str], keys: tuple[str, ...] | None = None, synonyms: bool = True, docs: bool = True
) -> DescribeConfigsRequest:
    """Return a DescribeConfigs request for some configs, or for all."""
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsRequestDescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name in resources
        ),
        include_synonyms=synonyms,
        include_documentation=docs,
    )


RESOURCES = (
    (TOPIC, "made-2"),
    (TOPIC, "made-3"),
    (TOPIC, "unknown"),
    (TOPIC, ""),
    (TOPIC, "bad name"),
    (BROKER, "101"),
    (BROKER, "1"),
    (BROKER, ""),
    (BROKER, "none"),
    (BROKER, "-1"),
    (BROKER_LOGGER, "101"),
    (BROKER_LOGGER, "none"),
    (BROKER_LOGGER, ""),
    (CLIENT_METRICS, "watch"),
    (CLIENT_METRICS, "unknown"),
    (CLIENT_METRICS, ""),
    (GROUP, "workers"),
    (GROUP, "unknown"),
    (GROUP, ""),
    (0, "x"),
    (77, "x"),
)
SOME_KEYS = (
    "retention.ms",
    "cleanup.policy",
    "log.retention.ms",
    "ssl.keystore.password",
    "interval.ms",
    "no.such.key",
)


def describe_requests() -> Iterator[Case]:
    """Return requests that change nothing."""
    for kind, name in RESOURCES:
        yield fixed(f"settings of {kind} {name!r}", settings_of((kind, name)), 4)
        yield fixed(f"some settings of {kind} {name!r}", settings_of((kind, name), keys=SOME_KEYS), 4)
    for version in range(1, 5):
        yield fixed("settings without words", settings_of((TOPIC, "made-2"), synonyms=False, docs=False), version)
        yield fixed("settings with synonyms", settings_of((TOPIC, "made-2"), (GROUP, "workers"), docs=False), version)
    yield fixed("no settings", settings_of((TOPIC, "made-2"), keys=()), 4)
    yield fixed("settings of nothing", settings_of(), 4)
    for version in range(3):
        for topic, partition in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("other", 0)):
            yield fixed(f"quorum of {topic}-{partition}", quorum_of((topic, partition)), version)
        yield fixed("quorum of nothing", quorum_of(), version)
        yield fixed("quorum twice", quorum_of(("__cluster_metadata", 0), ("__cluster_metadata", 0)), version)
    for version in range(5):
        yield fixed("versions", ApiVersionsRequest(client_software_name="same", client_software_version="1"), version)
    for name in ("", "-", "a b", "ok-", "é"):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        yield fixed(f"versions for {name!r}", request, 3)
    for names in ((), ("alice",), ("alice", "alice"), ("",)):
        users = None if names is None else tuple(map(_user, names))
        yield fixed(f"SCRAM users {names}", DescribeUserScramCredentialsRequest(users=users), 0)
    for owners in (None, (), ("alice",)):
        wanted = None if owners is None else tuple(map(_owner, owners))
        for version in range(1, 4):
            yield fixed(f"tokens of {owners}", DescribeDelegationTokenRequest(owners=wanted), version)
    for version in range(2):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
            yield fixed(f"handshake {mechanism!r}", SaslHandshakeRequest(mechanism=mechanism), version)
    for version in range(3):
        yield fixed("authenticate", SaslAuthenticateRequest(auth_bytes=b"x"), version)


def quorum_of(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    """Return a DescribeQuorum request, with one topic per partition."""
    return DescribeQuorumRequest(
        topics=tuple(
            DescribeQuorumRequestTopicData(
                topic_name=topic, partitions=(DescribeQuorumRequestPartitionData(partition_index=partition),)
            )
            for topic, partition in partitions
        )
    )


def _user(name: str) -> DescribeUserScramCredentialsRequestUserName:
    return DescribeUserScramCredentialsRequestUserName(name=name)


def _owner(name: str) -> DescribeDelegationTokenRequestDescribeDelegationTokenOwner:
    return DescribeDelegationTokenRequestDescribeDelegationTokenOwner(principal_type="User", principal_name=name)
