"""Bodies and answers about brokers and their log directories."""

from typing import Literal

from app.rest.schemas.base import ChangeBody, ListenerData, ListOf, Related, Resource


class UnregisterBrokerBody(ChangeBody):
    """`force` also unregisters a broker that is live or holds replicas. It can be given in the query instead."""

    force: bool = False


class BrokerData(Resource):
    """A broker."""

    kind: Literal["KafkaBroker"]
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related
    is_fenced: bool
    is_shutting_down: bool
    broker_epoch: int
    incarnation_id: str
    listeners: list[ListenerData]
    log_directories: list[str]


class BrokerDataList(ListOf[BrokerData]):
    """Brokers."""

    kind: Literal["KafkaBrokerList"]


class LogDirectoryData(Resource):
    """A log directory.

    `is_cordoned` (accepts no new replicas) is null until the broker reports it. `log_dir` (the path), the sizes in
    bytes and `error` come from the broker (DescribeLogDirs) as of `asked_at` (ms); all are null if it has not answered.
    A directory that the broker cannot use has an `error` and no id.
    """

    kind: Literal["KafkaLogDirectory"]
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


class LogDirectoryDataList(ListOf[LogDirectoryData]):
    """Log directories of a broker."""

    kind: Literal["KafkaLogDirectoryList"]
