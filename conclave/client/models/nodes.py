"""Models of nodes. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListenerData, ListMetadata, Metadata, Related
from conclave.client.structs import Answer


class BrokerEventData(Answer, frozen=True, kw_only=True):
    """What happened to a broker's registration.

    `duration_ms`: how long the new state lasted, until now if `is_current`; null if the state stayed the same.
    `leaders_lost`: the partitions that the broker stopped leading with this event or until its next one; null if none
    did and the broker is active.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    broker_id: int
    event: str
    offset: int
    timestamp: int
    state_before: str
    state_after: str
    broker_epoch: int
    duration_ms: int | None
    is_current: bool
    leaders_lost: int | None
    detail: str


class BrokerEventDataList(Answer, frozen=True, kw_only=True):
    """Events of a broker, newest first."""

    metadata: ListMetadata
    data: list[BrokerEventData]
    kind: str
    first_offset: int


class SupportedFeatureData(Answer, frozen=True, kw_only=True):
    """The levels of a feature that a controller supports."""

    feature_name: str
    lowest_level: int
    highest_level: int


class ControllerData(Answer, frozen=True, kw_only=True):
    """A registered controller. `quorum` links to the voters."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    controller_id: int
    incarnation_id: str
    is_leader: bool
    listeners: list[ListenerData]
    features: list[SupportedFeatureData]
    quorum: Related


class ControllerDataList(Answer, frozen=True, kw_only=True):
    """Controllers."""

    metadata: ListMetadata
    data: list[ControllerData]
    kind: str


class LogDirectoryData(Answer, frozen=True, kw_only=True):
    """A log directory.

    `is_cordoned` (accepts no new replicas) is null until the broker reports it. `log_dir` (the path), the sizes in
    bytes and `error` come from the broker (DescribeLogDirs) as of `asked_at` (ms); all are null if it has not answered.
    A directory that the broker cannot use has an `error` and no id.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    broker_id: int
    directory_id: str | None
    is_cordoned: bool | None
    replicas_count: int
    log_dir: str | None
    size_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None
    asked_at: int | None
    partition_replicas: Related


class LogDirectoryDataList(Answer, frozen=True, kw_only=True):
    """Log directories of a broker."""

    metadata: ListMetadata
    data: list[LogDirectoryData]
    kind: str


class ProducerIdsData(Answer, frozen=True, kw_only=True):
    """Producer ids. `next_producer_id` is the first that is not allocated to a broker."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    next_producer_id: int
