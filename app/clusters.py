"""The clusters of a web process: that of the settings, and those that admins have added.

Each has its own services, from the connection to the executor of plans, so that one that is down costs the others
nothing. Users, tokens and the database are shared. Every web process follows the table of clusters.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import structlog
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Receive, Scope, Send

from app.actions.actions import Actions
from app.actions.clusters import ClusterActions
from app.actions.plans import PlanActions
from app.actions.reports import ReportActions
from app.cluster.cluster import Cluster, StoredHistory
from app.cluster.known_clusters import ClusterSpec, clusters, spec_of
from app.cluster.log_store.recorder import Limits
from app.config import Settings, SettingsError
from app.db.database import Database
from app.http.cluster_paths import HOME, cluster_key, root_of_key, strip_root
from app.http.paths import API, strip_prefix
from app.records.schema_registry import RegistrySettings, SchemaRegistry
from app.reports.executor.cluster_steps import ClusterSteps
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.driver import PlanExecutor
from app.reports.executor.proposing import proposed_again
from app.reports.executor.step_audit import step_recorder
from app.reports.job_process import ReportSettings
from app.reports.lake.keeper import LakeKeeper, LakeSettings, Source
from app.reports.latest import LatestReports
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler
from app.reports.topology import Sighting
from app.reports.upkeep import ReportUpkeep, Retention
from app.reports.webhooks import WebhookSettings
from app.security.grants import RoleGrants
from app.security.roles import Principal, Role
from app.security.second_factors import SecondFactors
from app.security.service import Security
from app.services import Services
from app.startup import Startup
from app.tasks import cancel_tasks
from kraft_core.image.metadata_image import MetadataImage

if TYPE_CHECKING:
    from app.security.oidc.logins import OidcLogins

log = structlog.get_logger(__name__)

REPORT_SIZES_SECONDS: Final = 10.0
"""How long a report waits for brokers to give their sizes."""
FOLLOW_SECONDS: Final = 5.0
"""How soon a web process follows a cluster that another one has added, changed or removed."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the clusters of a process share. `url` is where users reach the process; `turn`: one Spark job at a time."""

    database: Database
    security: Security
    second_factors: SecondFactors
    grants: RoleGrants
    oidc: "OidcLogins | None"
    url: str
    turn: asyncio.Semaphore


def make_services(settings: Settings, key: str, shared: Shared) -> Services:
    """Build the parts for one cluster without starting them. `settings` are those of the cluster."""
    database, security = shared.database.of_cluster(key), shared.security
    registry = RegistrySettings.of(settings)
    cluster = Cluster(
        settings.bootstrap,
        database,
        cluster_id=settings.cluster_id,
        request_timeout_ms=settings.request_timeout_ms,
        history_records_max=settings.history_records_max,
        security=settings.kafka_security,
        client_properties=settings.client_properties,
        schemas=None if registry is None else SchemaRegistry(registry),
        stored=StoredHistory(settings.history_dir, Limits(settings.history_bytes, settings.history_days)),
    )

    def image() -> tuple[MetadataImage, str] | None:
        known = cluster.cluster_id
        return (cluster.image, known) if known is not None and cluster.freshness.is_ready else None

    def topology() -> Sighting | None:
        if image() is None:
            return None
        brokers = cluster.image.cluster.brokers
        fenced = [broker_id for broker_id, broker in brokers.items() if broker.fenced]
        return Sighting(list(brokers), fenced, cluster.topic_table.totals().reassigning > 0)

    reports = ReportRunner(
        database,
        ReportSettings(
            folder=settings.data_dir / "reports",
            spark_master=settings.spark_master,
            spark_memory=settings.spark_memory,
            spark_conf=settings.spark_conf,
            java_home=settings.java_home,
            timeout_seconds=settings.report_timeout_seconds,
            base_url=f"{shared.url}{root_of_key(key)}",
            lake=settings.lake_location,
            spark_files=settings.spark_files or None,
        ),
        image,
        partial(known_log_dirs, cluster, REPORT_SIZES_SECONDS, fresh_seconds=0.0),
        shared.turn,
    )
    webhook = WebhookSettings(
        settings.webhook_secret.get_secret_value() if settings.webhook_secret else "", settings.webhook_hosts
    )
    retention = Retention(settings.report_days, settings.report_runs_max, settings.report_snapshots_max)
    schedules = ReportScheduler(database, reports, topology)
    plans = PlanExecutor(database, ClusterSteps(cluster), proposed_again, step_recorder(security, key))
    report_actions = ReportActions(reports, schedules, database, security, webhook)
    return Services(
        key=key,
        settings=settings,
        database=database,
        security=security,
        second_factors=shared.second_factors,
        grants=shared.grants,
        oidc=shared.oidc,
        cluster=cluster,
        actions=Actions(cluster, security, database, report_actions, PlanActions(cluster, security, database, plans)),
        reports=reports,
        schedules=schedules,
        plans=plans,
        latest_reports=LatestReports(database),
        upkeep=ReportUpkeep(database, settings.data_dir / "reports", retention, webhook),
        lake=_lake_keeper(settings, database, cluster),
    )


def _oidc_logins(settings: Settings, security: Security, database: Database) -> "OidcLogins | None":
    if settings.oidc_issuer is None:
        return None
    from app.security.oidc.logins import OidcLogins

    return OidcLogins(settings, security, database)


def _lake_keeper(settings: Settings, database: Database, cluster: Cluster) -> LakeKeeper | None:
    if settings.lake_location is None:
        return None
    chosen = LakeSettings(
        settings.lake_location,
        settings.lake_days,
        settings.lake_interval_seconds,
        spark_conf=settings.spark_conf,
    )

    def source() -> Source | None:
        cluster_id, history = cluster.cluster_id, cluster.archive.folder
        return None if cluster_id is None or history is None else Source(cluster_id, history)

    return LakeKeeper(database, chosen, source)


async def start_services(services: Services, startup: Startup) -> None:
    """Start all parts for one cluster, however long the database takes."""
    services.cluster.start()
    await startup.retried(services.reports.start)
    await startup.retried(services.schedules.start)
    services.plans.start()
    await services.upkeep.start()
    if services.lake is not None:
        services.lake.start()


async def stop_services(services: Services) -> None:
    """Stop all parts, including those that were never started."""
    if services.lake is not None:
        await services.lake.stop()
    await services.actions.long_elections.stop()
    await services.plans.stop()
    await services.schedules.stop()
    await services.upkeep.stop()
    await services.reports.stop()
    await services.cluster.stop()


@dataclass(frozen=True, slots=True)
class NotStarted:
    """An added cluster that cannot be started, and why: its file of client properties is gone or wrong."""

    spec: ClusterSpec
    trouble: str


class Clusters:
    """The services of each cluster, from `start` to `stop`. `not_started` are those that have none, by key."""

    def __init__(self, settings: Settings, database: Database, security: Security, url: str, startup: Startup) -> None:
        self._settings = settings
        self._startup = startup
        self._shared = Shared(
            database,
            security,
            SecondFactors(settings, security, database),
            RoleGrants(security, database),
            _oidc_logins(settings, security, database),
            url,
            asyncio.Semaphore(1),
        )
        self.home = make_services(settings, "", self._shared)
        self.not_started: dict[str, NotStarted] = {}
        self._others: dict[str, tuple[ClusterSpec, Services]] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._following: asyncio.Task[None] | None = None
        self._changes = asyncio.Lock()
        self._is_stopping = False
        self.actions = ClusterActions(settings, database, security, self._ids, self.follow)

    # the life of the clusters

    async def start(self) -> None:
        """Start the cluster of the settings, then the added ones, of which none delays another."""
        await start_services(self.home, self._startup)
        await self._startup.retried(self.follow)
        self._following = asyncio.create_task(self._follow_forever(), name="clusters")

    async def _follow_forever(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            with contextlib.suppress(SQLAlchemyError):  # the database's outage log has it
                await self.follow()

    async def follow(self) -> None:
        """Start, change and stop the added clusters as the table says. Another name or colour stops nothing."""
        async with self._changes:
            wanted = {each.key: (spec_of(each), each.cluster_id) for each in await self._shared.database.read(clusters)}
            for key, (spec, services) in list(self._others.items()):
                new = wanted.get(key)
                if new is None or _place(new[0]) != _place(spec):
                    await self._end(key)
                elif new[0] != spec:
                    settings = services.settings.model_copy(
                        update={"cluster_name": new[0].name, "cluster_color": new[0].color}
                    )
                    self._others[key] = new[0], replace(services, settings=settings)
                if new is None:
                    await asyncio.to_thread(shutil.rmtree, services.settings.data_dir, ignore_errors=True)
            self.not_started = {key: each for key, each in self.not_started.items() if key in wanted}
            for key, (spec, cluster_id) in wanted.items():
                if key not in self._others and not self._is_stopping:
                    self._begin(spec, cluster_id)

    def _begin(self, spec: ClusterSpec, cluster_id: str) -> None:
        try:
            settings = self._settings.for_cluster(
                spec.key,
                spec.command_config,
                bootstrap_controllers=spec.bootstrap_controllers,
                schema_registry_url=spec.schema_registry_url or None,
                cluster_name=spec.name,
                cluster_color=spec.color,
                cluster_id=cluster_id,
            )
            services = make_services(settings, spec.key, self._shared)
        except SettingsError as wrong:  # the next look tries again
            found = NotStarted(spec, str(wrong))
            if self.not_started.get(spec.key) != found:
                log.warning("cluster_not_started", cluster=spec.key, cause=found.trouble)
            self.not_started[spec.key] = found
            return
        self.not_started.pop(spec.key, None)
        self._others[spec.key] = spec, services
        self._starting[spec.key] = asyncio.create_task(self._start(services), name=f"start-{spec.key}")

    async def _start(self, services: Services) -> None:
        try:
            await start_services(services, self._startup)
        except Exception:  # the other clusters go on
            log.exception("cluster_start_failed", cluster=services.key)
        else:
            log.info("cluster_started", cluster=services.key, cluster_id=services.settings.cluster_id)

    async def _end(self, key: str) -> None:
        services = self._others.pop(key)[1]
        await cancel_tasks(self._starting.pop(key))
        services.cluster.begin_stop()
        try:
            await stop_services(services)
        except Exception:  # the other clusters are still followed
            log.exception("cluster_stop_failed", cluster=key)
        else:
            log.info("cluster_stopped", cluster=key)

    def begin_stop(self) -> None:
        """End the event streams of all clusters so that their connections can close."""
        for services in self.all():
            services.cluster.begin_stop()

    async def stop(self) -> None:
        """Stop all clusters, including those that were never started."""
        self._is_stopping = True
        await cancel_tasks(self._following)
        async with self._changes:
            for key in list(self._others):
                await self._end(key)
        await stop_services(self.home)

    def _ids(self) -> dict[str, str | None]:
        return {each.key: each.cluster.cluster_id for each in self.all()}

    # what requests need

    def all(self) -> Sequence[Services]:
        """Return the services of all clusters: that of the settings first, the others by name."""
        others = [services for _, services in self._others.values()]
        return [self.home, *sorted(others, key=lambda each: (each.settings.cluster_name, each.key))]

    def seen_by(self, principal: Principal) -> list[Services]:
        """Return the services of the clusters that a caller may see, in the order of `all`."""
        return [each for each in self.all() if principal.role_in(each.key) >= Role.VIEWER]

    def names(self, principal: Principal) -> dict[str, str]:
        """Return the names of the clusters that a caller may see, by key."""
        return {each.key: each.settings.cluster_name for each in self.seen_by(principal)}

    def get(self, key: str) -> Services | None:
        """Return the services of a cluster, None if there is none with this key."""
        if key in {"", HOME}:
            return self.home
        found = self._others.get(key)
        return None if found is None else found[1]

    def of_id(self, cluster_id: str) -> Services | None:
        """Return the services of the cluster with this id, None if no cluster is known to have it."""
        if self.home.cluster.cluster_id == cluster_id:
            return self.home
        return next((each for _, each in self._others.values() if each.cluster.cluster_id == cluster_id), None)


def _place(spec: ClusterSpec) -> tuple[tuple[str, ...], str, str]:
    """Return what the connections to a cluster and to its schema registry depend on."""
    return spec.bootstrap_controllers, spec.command_config, spec.schema_registry_url


def clusters_of(request: Request) -> Clusters:
    """Return the clusters of the process."""
    return cast("Clusters", request.app.state.clusters)


class ClusterChoice:
    """ASGI middleware that finds the cluster of a request: by the prefix /c/KEY, or by the id in a path of the API.

    `scope["state"]` gets its `services`, its `root` (the prefix) and `prefix` (what stands before /v3), and its key in
    `info`. The path of an unknown key stays as it is: for those who are logged in, no page is there.
    """

    def __init__(self, app: ASGIApp, *, found: Clusters) -> None:
        self._app = app
        self._clusters = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["state"]  # set by Edge
        services, root = self._clusters.home, ""
        key = cluster_key(scope)
        named = None if key is None else self._clusters.get(key)
        if key is not None and named is not None:
            strip_root(scope, root_of_key(key))
            services, root = named, root_of_key(named.key)
        prefix = strip_prefix(scope)
        if key is None:
            services = self._of_api(scope["path"]) or services
        state.update(services=services, root=root, prefix=f"{root}{prefix}")
        state["info"] = replace(state["info"], cluster=services.key)
        await self._app(scope, receive, send)

    def _of_api(self, path: str) -> Services | None:
        start = f"{API}/clusters/"
        return self._clusters.of_id(path.removeprefix(start).partition("/")[0]) if path.startswith(start) else None
