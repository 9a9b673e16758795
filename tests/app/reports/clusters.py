"""Metadata images for the report tests: from short descriptions, and random ones from a seed."""

import random
from uuid import UUID

from rpds import HashTrieMap

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import (
    BrokerRegistration,
    ClusterImage,
    ConfigurationsImage,
    FeaturesImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def directory(broker: int, number: int = 0) -> UUID:
    return UUID(int=(1 << 100) + broker * 10 + number)


def broker(broker_id: int, rack: str | None, **changes: object) -> BrokerRegistration:
    settings: dict[str, object] = {"fenced": False, "directories": (directory(broker_id),), **changes}
    return BrokerRegistration(
        id=broker_id,
        epoch=broker_id,
        incarnation_id=UUID(int=broker_id + 5000),
        listeners=(),
        supported_features=HashTrieMap(),
        rack=rack,
        **settings,  # type: ignore[arg-type]  # keyword arguments of the caller's choice
    )


def partition(replicas: str, isr: str | None = None, leader: int | None = None, **more: str) -> PartitionRegistration:
    """`partition("1 2 3", isr="1 2")` is led by the first in-sync replica unless `leader` is given; -1 for none."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split())

    in_sync = ids(replicas if isr is None else isr)
    return PartitionRegistration(
        replicas=ids(replicas),
        directories=tuple(directory(replica) for replica in ids(replicas)),
        isr=in_sync,
        elr=ids(more.get("elr", "")),
        adding_replicas=ids(more.get("adding", "")),
        removing_replicas=ids(more.get("removing", "")),
        leader=(in_sync[0] if in_sync else -1) if leader is None else leader,
    )


def image(
    brokers: list[BrokerRegistration],
    topics: dict[str, list[PartitionRegistration]],
    configs: dict[str, dict[str, str]] | None = None,
    *,
    elr: bool = False,
) -> MetadataImage:
    """An image at offset 1000, epoch 7. `configs` by topic name; "" for the cluster's defaults."""
    images = {
        name: TopicImage(
            name,
            UUID(int=9000 + number),
            HashTrieMap(dict(enumerate(partitions))),
            frozenset(broker_id for each in partitions for broker_id in each.replicas),
        )
        for number, (name, partitions) in enumerate(sorted(topics.items()))
    }
    by_resource = {(TOPIC if name else BROKER, name): HashTrieMap(values) for name, values in (configs or {}).items()}
    levels = HashTrieMap({"eligible.leader.replicas.version": 1}) if elr else HashTrieMap()
    return MetadataImage(
        offset=1000,
        epoch=7,
        features=FeaturesImage(30, levels),
        cluster=ClusterImage(HashTrieMap({each.id: each for each in brokers})),
        topics=TopicsImage(
            HashTrieMap({each.id: each for each in images.values()}),
            HashTrieMap({name: each.id for name, each in images.items()}),
        ),
        configs=ConfigurationsImage(HashTrieMap(by_resource)),
    )


def random_image(seed: int) -> MetadataImage:
    """A small cluster with every special case: fenced, cordoned, unregistered, rackless, moving, leaderless, ELR."""
    rng = random.Random(seed)
    racks = rng.choice([["a", "b", "c"], ["a", "b"], ["a", "b", "c", None], [None], ["a"], ["a", "a", "a", "b"]])
    brokers = [random_broker(rng, broker_id, rng.choice(racks)) for broker_id in range(1, rng.randint(4, 9))]
    ids = [each.id for each in brokers] + ([99] if rng.random() < 0.3 else [])
    topics = {
        f"t{number}": [random_partition(rng, ids) for _ in range(rng.randint(1, 6))]
        for number in range(rng.randint(0, 5))
    }
    configs = {
        name: {
            "min.insync.replicas": str(rng.randint(1, 3)),
            "unclean.leader.election.enable": rng.choice(["true", "false"]),
        }
        for name in [*topics, ""]
        if rng.random() < 0.6
    }
    return image(brokers, topics, configs, elr=rng.random() < 0.5)


def large_random_image(seed: int, racks: list[str | None]) -> MetadataImage:
    """A cluster of 24 brokers and some hundred partitions with every special case."""
    rng = random.Random(seed)
    brokers = [random_broker(rng, broker_id, rng.choice(racks)) for broker_id in range(1, 25)]
    ids = [*(each.id for each in brokers), 99]
    topics = {f"t{number:02}": [random_partition(rng, ids) for _ in range(rng.randint(1, 12))] for number in range(40)}
    minimum = {name: {"min.insync.replicas": str(rng.randint(1, 3))} for name in topics if rng.random() < 0.6}
    unclean = {name: {"unclean.leader.election.enable": "true"} for name in list(topics)[:20]}
    configs = {name: {**minimum.get(name, {}), **unclean.get(name, {})} for name in topics}
    return image(brokers, topics, configs, elr=True)


def random_broker(rng: random.Random, broker_id: int, rack: str | None) -> BrokerRegistration:
    kind = rng.random()
    if kind < 0.1:
        return broker(broker_id, rack, fenced=True)
    if kind < 0.2:
        return broker(broker_id, rack, in_controlled_shutdown=True)
    if kind < 0.3:
        return broker(broker_id, rack, cordoned_directories=(directory(broker_id),))
    if kind < 0.4:
        return broker(broker_id, rack, directories=(directory(broker_id, 5),))
    return broker(broker_id, rack)


def random_partition(rng: random.Random, ids: list[int]) -> PartitionRegistration:
    replicas = rng.sample(ids, rng.randint(1, min(4, len(ids))))
    in_sync = [each for each in replicas if rng.random() < 0.8]
    out = [each for each in replicas if each not in in_sync]
    moving = len(replicas) > 2 and rng.random() < 0.2
    return partition(
        " ".join(map(str, replicas)),
        " ".join(map(str, in_sync)),
        rng.choice(in_sync) if in_sync and rng.random() < 0.9 else -1,
        elr=" ".join(map(str, out[:1])) if rng.random() < 0.5 else "",
        adding=str(replicas[-1]) if moving else "",
        removing=str(replicas[0]) if moving else "",
    )
