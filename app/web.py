"""The web process: `create_app` builds it, `run_web` runs it until a signal."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvloop
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from app import logs
from app.actions.actions import Actions
from app.actions.plans import PlanActions
from app.actions.reports import ReportActions
from app.child_environment import forget_secrets
from app.cluster.brokers import BrokerInUseError
from app.cluster.cluster import Cluster, StoredHistory
from app.cluster.history import OffsetGone
from app.cluster.log_store.recorder import Limits
from app.config import Settings, SettingsError, load_settings
from app.db.database import Database
from app.error_responses import ErrorResponses
from app.http.compression import Compression
from app.http.errors import ApiError
from app.http.server import WebServer, connections_allowed, listen
from app.http.templating import static_files
from app.metrics import Metrics
from app.pages import site
from app.pages.frame import environment
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
from app.rest import api
from app.rest.negotiation import Negotiation
from app.security.accounts import AccountError
from app.security.edge import Edge
from app.security.guard import Guard
from app.security.retention import AuditRetention
from app.security.second_factors import SecondFactors
from app.security.service import Security
from app.security.slots import Slots
from app.services import Services
from app.startup import Startup, StartupGate
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.host_port import host_port

if TYPE_CHECKING:
    from app.security.oidc.logins import OidcLogins

log = structlog.get_logger(__name__)

VERSION = "3"  # of the REST API, as in its paths
REPORT_SIZES_SECONDS = 10.0  # for which a report waits for brokers to give their sizes
EXPECTED_ERRORS: tuple[type[Exception], ...] = (
    ApiError,
    KafkaError,
    ConnectionError,
    RequestValidationError,
    OffsetGone,
    AccountError,
    BrokerInUseError,
    HTTPException,
)


def make_services(settings: Settings, database: Database, base_url: str) -> Services:
    """Build the parts of the process without starting them. `base_url` is where users reach it."""
    security = Security(database, settings)
    cluster = Cluster(
        settings.bootstrap,
        database,
        cluster_id=settings.cluster_id,
        request_timeout_ms=settings.request_timeout_ms,
        history_records_max=settings.history_records_max,
        security=settings.kafka_security,
        client_properties=settings.client_properties,
        schemas=_schemas(settings),
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
            base_url=base_url,
            lake=settings.lake_location,
            spark_files=settings.spark_files or None,
        ),
        image,
        partial(known_log_dirs, cluster, REPORT_SIZES_SECONDS, fresh_seconds=0.0),
    )
    webhook = WebhookSettings(
        settings.webhook_secret.get_secret_value() if settings.webhook_secret else "", settings.webhook_hosts
    )
    retention = Retention(settings.report_days, settings.report_runs_max, settings.report_snapshots_max)
    schedules = ReportScheduler(database, reports, topology)
    plans = PlanExecutor(database, ClusterSteps(cluster), proposed_again, step_recorder(security))
    report_actions = ReportActions(reports, schedules, database, security, webhook)
    return Services(
        settings=settings,
        database=database,
        security=security,
        second_factors=SecondFactors(settings, security, database),
        oidc=_oidc_logins(settings, security, database),
        cluster=cluster,
        actions=Actions(cluster, security, report_actions, PlanActions(cluster, security, database, plans)),
        reports=reports,
        schedules=schedules,
        plans=plans,
        latest_reports=LatestReports(database),
        upkeep=ReportUpkeep(database, settings.data_dir / "reports", retention, webhook),
    )


def _oidc_logins(settings: Settings, security: Security, database: Database) -> "OidcLogins | None":
    if settings.oidc_issuer is None:
        return None
    from app.security.oidc.logins import OidcLogins

    return OidcLogins(settings, security, database)


def _schemas(settings: Settings) -> SchemaRegistry | None:
    if settings.schema_registry_url is None:
        return None
    password = settings.schema_registry_password
    return SchemaRegistry(
        RegistrySettings(
            settings.schema_registry_url,
            settings.schema_registry_user,
            "" if password is None else password.get_secret_value(),
            settings.schema_registry_ca,
        )
    )


def create_app(
    settings: Settings, base_url: str | None = None, on_started: Callable[[], None] | None = None
) -> FastAPI:
    """Return the application. Its lifespan starts it in the background, and it answers requests from the beginning.

    The start migrates the database, follows the quorum and runs the schedules. Then `app.state.startup` is done or has
    failed, and `on_started` is called. `base_url` is the address for the login link. After the start,
    `app.state.login_link` is that link, None once an admin has logged in.
    """
    settings.web_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    connections = connections_allowed()
    slots = Slots(connections, settings.body_bytes_max)
    url = settings.public_url or base_url or f"http://{host_port(settings.host, settings.http_port)}"
    services = make_services(settings, Database(settings.sqlalchemy_url), url)
    metrics = Metrics(services.cluster, services.database.outage, services.upkeep)
    retention = AuditRetention(services.database, settings.audit_days, settings.audit_rows_max)
    lake = _lake_keeper(settings, services)
    startup = Startup(on_started or (lambda: None))
    error_responses = ErrorResponses(
        site.error_page, [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        startup.begin(_start(app, retention, lake, url))
        try:
            yield
        finally:
            await startup.stop()
            await _stop(services, retention, lake)

    app = FastAPI(
        title="Conclave",
        version=VERSION,
        description="Administration of a KRaft cluster: Confluent's REST v3 and extensions.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[
            Middleware(Edge, settings=settings, render=error_responses.render, observe=metrics.observe),
            Middleware(StartupGate, startup=startup),
            Middleware(Guard, security=services.security, settings=settings, slots=slots),
            Middleware(Negotiation),
            Middleware(Compression),
        ],
        exception_handlers=dict.fromkeys(EXPECTED_ERRORS, _handler(error_responses)),
    )
    app.state.services = services
    app.state.connections_max = connections
    app.state.slots = slots
    app.state.metrics = metrics
    app.state.startup = startup
    app.include_router(static_files().router())
    api.include(app)
    site.include(app)
    return app


def _lake_keeper(settings: Settings, services: Services) -> LakeKeeper | None:
    if settings.lake_location is None:
        return None
    chosen = LakeSettings(
        settings.lake_location,
        settings.lake_days,
        settings.lake_interval_seconds,
        spark_conf=settings.spark_conf,
    )

    def source() -> Source | None:
        cluster_id, history = services.cluster.cluster_id, services.cluster.archive.folder
        return None if cluster_id is None or history is None else Source(cluster_id, history)

    return LakeKeeper(services.database, chosen, source)


async def _start(app: FastAPI, retention: AuditRetention, lake: LakeKeeper | None, url: str) -> None:
    """Open the database, however long that takes, then start all parts."""
    services: Services = app.state.services
    startup: Startup = app.state.startup
    _prepare_first_visit(app)

    def prepare() -> str | None:
        services.database.upgrade()
        return services.security.prepare(url)

    app.state.login_link = await startup.open_database(prepare)
    services.cluster.start()
    await startup.retried(services.reports.start)
    await startup.retried(services.schedules.start)
    services.plans.start()
    await services.upkeep.start()
    retention.start()
    if lake is not None:
        lake.start()


async def _stop(services: Services, retention: AuditRetention, lake: LakeKeeper | None) -> None:
    """Stop all parts, including those that were never started."""
    await retention.stop()
    if lake is not None:
        await lake.stop()
    await services.actions.long_elections.stop()
    await services.plans.stop()
    await services.schedules.stop()
    await services.upkeep.stop()
    await services.reports.stop()
    await services.cluster.stop()
    with contextlib.suppress(SQLAlchemyError):
        await services.security.flush()
    await services.database.outage.stop()
    await asyncio.to_thread(services.database.close)


def _prepare_first_visit(app: FastAPI) -> None:
    """Do work that would delay the first request by 0.1 s: FastAPI reads routes and Jinja compiles on first use."""
    for route in app.router.routes:
        route.matches({"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []})
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)


def _handler(error_responses: ErrorResponses) -> Callable[[Request, Exception], Coroutine[None, None, Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        return error_responses.render(request, error)

    return handle


def run_web(settings: Settings) -> int:
    """Run the web process until Ctrl-C or SIGTERM, and return the exit code.

    Prints the address and, until an admin has logged in, the one-time link. A port in use, or a failure of the start
    other than an unavailable database, is one line on standard error and exit code 1.
    """
    forget_secrets()
    logs.configure(settings.log_format, settings.log_level)
    try:
        listener = listen(settings.host, settings.http_port)
    except OSError as busy:
        where = host_port(settings.host, settings.http_port)
        print(f"conclave: cannot listen on {where}: {busy.strerror}", file=sys.stderr)  # noqa: T201 - output for the operator
        return 1
    port = listener.getsockname()[1]
    url = settings.public_url or f"http://{host_port(settings.host, port)}"
    app = create_app(settings, url, lambda: _announce(app, server, url))
    services: Services = app.state.services
    server = WebServer(
        app,
        connections_max=app.state.connections_max,
        on_started=lambda: None,
        on_stopping=services.cluster.begin_stop,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listener]))
    listener.close()
    return 0 if app.state.startup.error is None else 1


def _announce(app: FastAPI, server: WebServer, url: str) -> None:
    """Print the address and the login link for the first admin, or the error of a failed start."""
    error: BaseException | None = app.state.startup.error
    if error is not None:
        print(f"conclave: the start failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201 - output for the operator
        server.stop()
        return
    print(f"Conclave is at {url}", flush=True)  # noqa: T201 - output for the operator
    if app.state.login_link is not None:
        print(f"Log in once with {app.state.login_link}", flush=True)  # noqa: T201 - output for the operator


def main(arguments: list[str]) -> int:
    """Run `python -m app.web [FILE]`, the web process without the CLI around it, for developers."""
    try:
        settings = load_settings(Path(arguments[0]) if arguments else None)
    except SettingsError as wrong:
        print(wrong, file=sys.stderr)  # noqa: T201 - output for the operator
        return 2
    return run_web(settings)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
