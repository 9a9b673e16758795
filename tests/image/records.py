"""Record builders and strategies for the image tests: streams of records that follow from one another."""

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kraft_core.configs.supported_configs import supported_configs
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches

DIRECTORIES = {broker: UUID(int=(100 + broker) << 64) for broker in range(8)}


def topic_id(number: int) -> UUID:
    return UUID(int=(number + 1) << 64)


def partition(topic: int, index: int, replicas: Sequence[int] = (1, 2, 3), **fields: Any) -> r.PartitionRecord:
    defaults: dict[str, Any] = {
        "isr": tuple(replicas),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": tuple(DIRECTORIES[broker] for broker in replicas),
    }
    return r.PartitionRecord(
        partition_id=index, topic_id=topic_id(topic), replicas=tuple(replicas), **{**defaults, **fields}
    )


def register_broker(broker_id: int, epoch: int, **fields: Any) -> r.RegisterBrokerRecord:
    defaults: dict[str, Any] = {
        "rack": None,
        "incarnation_id": UUID(int=epoch << 70),
        "end_points": (r.RegisterBrokerRecordBrokerEndpoint(name="PLAINTEXT", host="h", port=9092),),
        "features": (
            r.RegisterBrokerRecordBrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
        "log_dirs": (DIRECTORIES[broker_id],),
    }
    return r.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, **{**defaults, **fields})


def data_batch(base_offset: int, records: Sequence[MetadataRecord], epoch: int = 1) -> RecordBatch:
    raw = encode_batch(base_offset, epoch, 0, [r.encode_record(record, type(record).VERSIONS[1]) for record in records])
    (batch,) = read_batches(raw)
    return batch


class _Scribe:
    """Draws records that are valid at this point of a log, with the minimum state to do so."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics: dict[int, set[int]] = {}
        self.brokers: dict[int, int] = {}
        self.acls: list[UUID] = []
        self.scram: set[tuple[int, str]] = set()
        self.tokens: set[str] = set()
        self.next_topic = 0
        self.producer_ids = 0

    def draw(self) -> MetadataRecord:
        kinds = [
            self.topic,
            self.broker,
            self.config,
            self.feature,
            self.quota,
            self.producer,
            self.acl,
            self.scram_user,
        ]
        kinds += [self.token, self.controller, r.NoOpRecord]
        if self.topics:
            kinds += [self.partition, self.partition, self.change, self.change, self.remove_topic, self.clear_elr]
        if self.brokers:
            kinds += [self.broker_change, self.fence, self.unregister]
        return self.random.choice(kinds)()

    def topic(self) -> MetadataRecord:
        number, self.next_topic = self.next_topic, self.next_topic + 1
        self.topics[number] = set()
        return r.TopicRecord(name=f"t{number}", topic_id=topic_id(number))

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.random.sample(range(1, 7), self.random.randint(1, 3)))

    def partition(self) -> MetadataRecord:
        number = self.random.choice(list(self.topics))
        index = len(self.topics[number])
        self.topics[number].add(index)
        return partition(number, index, self.replicas(), leader_epoch=self.random.randint(0, 500))

    def change(self) -> MetadataRecord:
        candidates = [(number, index) for number, indexes in self.topics.items() for index in indexes]
        if not candidates:
            return r.NoOpRecord()
        number, index = self.random.choice(candidates)
        fields: dict[str, Any] = {}
        if self.random.random() < 0.3:
            replicas = self.replicas()
            fields = {"replicas": replicas, "directories": tuple(DIRECTORIES[broker] for broker in replicas)}
            fields |= {"adding_replicas": replicas[:1], "removing_replicas": replicas[1:2]}
        if self.random.random() < 0.5:
            fields["leader"] = self.random.choice([-1, 1, 2, 3])
        if self.random.random() < 0.5:
            fields["isr"] = self.replicas()
        if self.random.random() < 0.4:
            fields |= {"eligible_leader_replicas": self.replicas()[:1], "last_known_elr": self.replicas()[:1]}
        if self.random.random() < 0.2:
            fields["leader_recovery_state"] = self.random.choice([0, 1])
        return r.PartitionChangeRecord(topic_id=topic_id(number), partition_id=index, **fields)

    def remove_topic(self) -> MetadataRecord:
        number = self.random.choice(list(self.topics))
        del self.topics[number]
        return r.RemoveTopicRecord(topic_id=topic_id(number))

    def clear_elr(self) -> MetadataRecord:
        return r.ClearElrRecord(topic_name=self.random.choice(["", f"t{self.random.choice(list(self.topics))}"]))

    def broker(self) -> MetadataRecord:
        broker_id = self.random.randint(1, 6)
        self.brokers[broker_id] = self.brokers.get(broker_id, 0) + 1
        rack = self.random.choice([None, "a", ""])
        return register_broker(broker_id, self.brokers[broker_id], rack=rack, fenced=self.random.random() < 0.5)

    def broker_change(self) -> MetadataRecord:
        broker_id = self.random.choice(list(self.brokers))
        fields = self.random.choice(
            [{"fenced": 1}, {"fenced": -1}, {"in_controlled_shutdown": 1}, {"log_dirs": (topic_id(5), topic_id(2))},
             {"cordoned_log_dirs": (topic_id(2),)}, {"cordoned_log_dirs": ()}]
        )  # fmt: skip
        return r.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=self.brokers[broker_id], **fields)

    def fence(self) -> MetadataRecord:
        broker_id = self.random.choice(list(self.brokers))
        kind = self.random.choice([r.FenceBrokerRecord, r.UnfenceBrokerRecord])
        return kind(id=broker_id, epoch=self.brokers[broker_id])

    def unregister(self) -> MetadataRecord:
        broker_id = self.random.choice(list(self.brokers))
        return r.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=self.brokers.pop(broker_id))

    def controller(self) -> MetadataRecord:
        return r.RegisterControllerRecord(
            controller_id=self.random.randint(1, 3),
            incarnation_id=topic_id(self.random.randint(0, 9)),
            end_points=(r.RegisterControllerRecordControllerEndpoint(name="CONTROLLER", host="h", port=9093),),
        )

    def config(self) -> MetadataRecord:
        kind, name = self.random.choice([(2, "t0"), (2, "t1"), (4, ""), (4, "1"), (16, "m"), (32, "g"), (8, "1")])
        key = self.random.choice((*sorted(supported_configs(kind))[:3], "x"))
        value = self.random.choice([None, "1", "", "delete,compact"])
        return r.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)

    def feature(self) -> MetadataRecord:
        name, level = self.random.choice(
            [("group.version", 1), ("group.version", 0), ("transaction.version", 2), ("kraft.version", 1)]
        )
        return r.FeatureLevelRecord(name=name, feature_level=level)

    def quota(self) -> MetadataRecord:
        parts = self.random.choice(
            [
                (("user", "u"),),
                (("user", None),),
                (("client-id", "c"), ("user", "u")),
                (("user", "u"), ("client-id", "c")),
            ]
        )
        return r.ClientQuotaRecord(
            entity=tuple(r.ClientQuotaRecordEntityData(entity_type=kind, entity_name=name) for kind, name in parts),
            key=self.random.choice(["producer_byte_rate", "request_percentage"]),
            value=self.random.choice([1.5, 1024.0]),
            remove=self.random.random() < 0.3,
        )

    def producer(self) -> MetadataRecord:
        self.producer_ids += 1000
        return r.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=self.producer_ids)

    def acl(self) -> MetadataRecord:
        if self.acls and self.random.random() < 0.4:
            return r.RemoveAccessControlEntryRecord(id=self.acls.pop())
        self.acls.append(UUID(int=self.random.getrandbits(128)))
        return r.AccessControlEntryRecord(
            id=self.acls[-1], resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
            operation=3, permission_type=3,
        )  # fmt: skip

    def scram_user(self) -> MetadataRecord:
        if self.scram and self.random.random() < 0.4:
            mechanism, name = self.scram.pop()
            return r.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
        mechanism, name = self.random.choice([1, 2]), self.random.choice(["a", "b"])
        self.scram.add((mechanism, name))
        return r.UserScramCredentialRecord(
            name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        )

    def token(self) -> MetadataRecord:
        if self.tokens and self.random.random() < 0.4:
            return r.RemoveDelegationTokenRecord(token_id=self.tokens.pop())
        name = self.random.choice("pqr")
        self.tokens.add(name)
        return r.DelegationTokenRecord(
            owner="User:a", requester="User:b", renewers=("User:c",), issue_timestamp=1,
            max_timestamp=9, expiration_timestamp=self.random.randint(2, 9), token_id=name,
        )  # fmt: skip


@st.composite
def record_streams(draw: st.DrawFn) -> list[MetadataRecord]:
    """Up to 120 records of all kinds, each of which follows from those before it."""
    scribe = _Scribe(draw(st.randoms(use_true_random=False)))
    first = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    return [first, *(scribe.draw() for _ in range(draw(st.integers(0, 120))))]


EMPTY = MetadataImage.EMPTY
