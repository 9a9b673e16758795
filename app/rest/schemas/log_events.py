"""Answers about what happened in the metadata log: brokers, ISRs, leaders and feature levels.

In every list `first_offset` is where the part of the log begins that is known.
"""

from typing import Literal

from app.rest.schemas.base import ListOf, Resource

State = Literal["unregistered", "fenced", "shutting-down", "active"]


class BrokerEventData(Resource):
    """What happened to a broker's registration.

    `duration_ms`: how long the new state lasted, until now if `is_current`; null if the state stayed the same.
    `leaders_lost`: the partitions that the broker stopped leading with this event or until its next one; null if none
    did and the broker is active.
    """

    kind: Literal["KafkaBrokerEvent"]
    broker_id: int
    event: Literal[
        "registered",
        "registered-again",
        "unfenced",
        "fenced",
        "controlled-shutdown",
        "directories-offline",
        "directories-online",
        "cordoned",
        "unregistered",
    ]
    offset: int
    timestamp: int
    state_before: State
    state_after: State
    broker_epoch: int
    duration_ms: int | None
    is_current: bool
    leaders_lost: int | None
    detail: str


class BrokerEventDataList(ListOf[BrokerEventData]):
    """Events of a broker, newest first."""

    kind: Literal["KafkaBrokerEventList"]
    first_offset: int


class PartitionFlapsData(Resource):
    """ISR and leader changes of a partition in a window.

    `flaps`: returns of a broker to an ISR that it had left; `out_ms`: the sum of the times in between.
    """

    kind: Literal["KafkaPartitionFlaps"]
    topic_name: str
    topic_id: str
    partition_id: int
    isr_shrinks: int
    isr_expansions: int
    flaps: int
    out_ms: int
    leader_changes: int
    last_offset: int


class PartitionFlapsDataList(ListOf[PartitionFlapsData]):
    """Partitions, those with the most changes first."""

    kind: Literal["KafkaPartitionFlapsList"]
    first_offset: int


class BrokerFlapsData(Resource):
    """How often a broker left, joined and came back to ISRs, and gained and lost leaders, in a window."""

    kind: Literal["KafkaBrokerFlaps"]
    broker_id: int
    isr_left: int
    isr_joined: int
    flaps: int
    out_ms: int
    leaders_gained: int
    leaders_lost: int


class BrokerFlapsDataList(ListOf[BrokerFlapsData]):
    """Brokers, those with the most changes first."""

    kind: Literal["KafkaBrokerFlapsList"]
    first_offset: int


class LeaderElectionData(Resource):
    """A leader elected outside the ISR.

    `election`: elr (eligible, nothing below the high watermark is lost), last-known-leader or unclean (acknowledged
    records may be lost).
    """

    kind: Literal["KafkaLeaderElection"]
    topic_name: str
    partition_id: int
    election: Literal["elr", "last-known-leader", "unclean"]
    offset: int
    timestamp: int
    leader_id_before: int | None
    isr_before: list[int]
    leader_id: int


class LeaderElectionDataList(ListOf[LeaderElectionData]):
    """Elections, newest first."""

    kind: Literal["KafkaLeaderElectionList"]
    first_offset: int


class FeatureChangeData(Resource):
    """A change of a feature's finalized level; 0 is off."""

    kind: Literal["KafkaFeatureChange"]
    feature_name: str
    level_before: int
    level: int
    offset: int
    timestamp: int


class FeatureChangeDataList(ListOf[FeatureChangeData]):
    """Changes of feature levels, newest first."""

    kind: Literal["KafkaFeatureChangeList"]
    first_offset: int
