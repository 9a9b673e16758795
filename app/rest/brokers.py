"""Brokers: their registrations, replicas and log directories, and unregistering."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.cluster.brokers import broker_use
from app.cluster.log_dirs import LogDir, LogDirs
from app.error_responses import NATIVE
from app.rest.paging import NowPageDep, PageDep
from app.rest.partitions import replica_data
from app.rest.responses import DRY_RUN, accepted, answer, planned
from app.rest.routing import DryRun, Flag, JsonRoute, flag_of
from app.rest.schemas.brokers import BrokerData, BrokerDataList, LogDirectoryDataList, UnregisterBrokerBody
from app.rest.schemas.partitions import ReplicaDataList
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, Reader, ServicesDep
from kraft_core.image.metadata_image import BrokerRegistration
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/brokers", route_class=JsonRoute)


def broker_data(view: View, broker: BrokerRegistration) -> dict[str, Any]:
    """Return one broker. `host` and `port` are those of its first listener; its state is an addition to REST v3."""
    first = broker.listeners[0] if broker.listeners else None
    return view.resource(
        "KafkaBroker",
        ("brokers", broker.id),
        (("broker", broker.id),),
        broker_id=broker.id,
        host=first.host if first else None,
        port=first.port if first else None,
        rack=broker.rack,
        configs=view.related("brokers", broker.id, "configs"),
        partition_replicas=view.related("brokers", broker.id, "partition-replicas"),
        is_fenced=broker.fenced,
        is_shutting_down=broker.in_controlled_shutdown,
        broker_epoch=broker.epoch,
        incarnation_id=uuid_to_text(broker.incarnation_id),
        listeners=[{"name": at.name, "host": at.host, "port": at.port} for at in broker.listeners],
        log_directories=[uuid_to_text(directory) for directory in broker.directories],
    )


@router.get("", tags=["brokers"], responses={200: {"model": BrokerDataList}})
async def list_brokers(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the registered brokers by id, including fenced ones."""
    brokers = sorted(view.image.cluster.brokers.values(), key=lambda broker: broker.id)
    return page.answer("KafkaBrokerList", brokers, lambda broker: broker.id, lambda broker: broker_data(view, broker))


@router.get("/{broker_id}", tags=["brokers"], responses={200: {"model": BrokerData}})
async def get_broker(broker_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one broker."""
    return answer(broker_data(view, view.broker(broker_id)), view.offset)


@router.get("/{broker_id}/partition-replicas", tags=["brokers"], responses={200: {"model": ReplicaDataList}})
async def list_replicas(broker_id: int, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the replicas of the broker by topic and partition."""
    view.broker(broker_id)
    replicas = sorted(
        (
            (topic.name, index, partition)
            for topic, index, partition in view.image.topics.partitions_of_broker(broker_id)
        ),
        key=lambda item: item[:2],
    )
    return page.answer(
        "KafkaReplicaList", replicas, lambda item: item[:2], lambda item: replica_data(view, *item, broker_id)
    )


def _directories(view: View, broker: BrokerRegistration, log_dirs: LogDirs) -> list[dict[str, Any]]:
    replicas = dict.fromkeys(broker.directories, 0)
    for _, _, partition in view.image.topics.partitions_of_broker(broker.id):
        directory = partition.directory(broker.id)
        if directory in replicas:
            replicas[directory] += 1
    paths = {directory: path for path, directory in log_dirs.directory_ids(view.image, broker).items()}
    answered = {each.path: each for each in log_dirs.dirs}
    asked_at = None if log_dirs.asked_at is None else round(log_dirs.asked_at.timestamp() * 1000)

    def row(directory: UUID | None, found: LogDir | None, count: int) -> dict[str, Any]:
        cordoned = broker.cordoned_directories
        usable = found is not None and not found.error
        key = uuid_to_text(directory) if directory is not None else found.path if found is not None else ""
        return view.resource(
            "KafkaLogDirectory",
            ("brokers", broker.id, "log-directories"),
            (("broker", broker.id), ("log-directory", key)),
            broker_id=broker.id,
            directory_id=None if directory is None else uuid_to_text(directory),
            is_cordoned=None if cordoned is None else directory in cordoned,
            replicas_count=count,
            log_dir=found.path if found else None,
            size_bytes=found.size_bytes if found and usable else None,
            total_bytes=found.total_bytes if found else None,
            usable_bytes=found.usable_bytes if found else None,
            error=(found.error or None) if found else None,
            asked_at=asked_at if found else None,
            partition_replicas=view.related("brokers", broker.id, "partition-replicas"),
        )

    known = [row(each, answered.get(paths.get(each, "")), count) for each, count in replicas.items()]
    return known + [row(None, each, 0) for path, each in answered.items() if path not in paths.values()]


@router.get("/{broker_id}/log-directories", tags=[NATIVE, "nodes"], responses={200: {"model": LogDirectoryDataList}})
async def list_log_directories(
    broker_id: int, view: NowViewDep, page: NowPageDep, services: ServicesDep, _caller: Reader
) -> Response:
    """List the broker's log directories, with their replicas and bytes. The broker is asked if it was not just asked.

    Sizes are null if the broker has not answered within a moment; a later request has them.
    """
    broker = view.broker(broker_id)
    log_dirs = await services.cluster.log_dirs.of([broker])
    rows = sorted(_directories(view, broker, log_dirs[broker_id]), key=_directory_key)
    return page.answer("KafkaLogDirectoryList", rows, _directory_key, dict)


def _directory_key(row: dict[str, Any]) -> str:
    return str(row["directory_id"] or row["log_dir"])


@router.post(
    "/{broker_id}:unregister",
    tags=[NATIVE, "operations"],
    status_code=202,
    responses={
        **DRY_RUN,
        404: {"description": "no such broker"},
        409: {"description": "the broker is live or holds replicas, and `force` is not given"},
    },
)
async def unregister_broker(
    request: Request,
    broker_id: Annotated[int, Path(ge=0, le=2**31 - 1)],
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
    force: Annotated[Flag | None, Query(description="also a broker that is live or holds replicas")] = None,
    body: UnregisterBrokerBody | None = None,
) -> Response:
    """Remove the registration of a broker that is gone for good. A running broker registers again when it restarts.

    A broker that is live or holds replicas is refused unless `force` is given, in the query or in the body.
    """
    broker = view.broker(broker_id)
    forced = await flag_of(request, "force", force)
    offset = await services.actions.brokers.unregister(caller, broker_id, force=forced, validate_only=validate_only)
    if validate_only:
        use = broker_use(view.image, broker_id)
        before = {"is_fenced": broker.fenced, "replicas_count": use.replicas, "leaders_count": use.leaders}
        return planned([(f"broker {broker_id}", before, None)])
    return accepted({}, offset)
