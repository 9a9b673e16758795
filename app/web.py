"""The web process: `create_app` builds it, `run_web` runs it until a signal."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import uvloop
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from app import logs
from app.child_environment import forget_secrets
from app.cluster.brokers import BrokerInUseError
from app.cluster.history import OffsetGone
from app.cluster.known_clusters import ClusterError
from app.clusters import ClusterChoice, Clusters
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
from app.rest import api
from app.rest.negotiation import Negotiation
from app.security.accounts import AccountError
from app.security.caller_shares import CallerShares
from app.security.edge import Edge
from app.security.guard import Guard
from app.security.retention import AuditRetention
from app.security.service import Security
from app.security.slots import Slots
from app.startup import Startup, StartupGate
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.host_port import host_port

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
    ClusterError,
    BrokerInUseError,
    HTTPException,
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
    database = Database(settings.sqlalchemy_url)
    security = Security(database, settings)
    retention = AuditRetention(database, settings.audit_days, settings.audit_rows_max)
    shares = CallerShares(database, slots.of_callers)
    startup = Startup(on_started or (lambda: None))
    clusters = Clusters(settings, database, security, url, startup)
    metrics = Metrics(lambda: [(each.key, each.cluster, each.upkeep) for each in clusters.all()], database.outage)
    error_responses = ErrorResponses(
        site.error_page, [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        startup.begin(_start(app, security, database, retention, shares, url))
        try:
            yield
        finally:
            await startup.stop()
            await _stop(clusters, security, database, retention, shares)

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
            Middleware(ClusterChoice, found=clusters),
            Middleware(StartupGate, startup=startup),
            Middleware(Guard, security=security, settings=settings, slots=slots),
            Middleware(Negotiation),
            Middleware(Compression),
        ],
        exception_handlers=dict.fromkeys(EXPECTED_ERRORS, _handler(error_responses)),
    )
    app.state.services = clusters.home
    app.state.clusters = clusters
    app.state.connections_max = connections
    app.state.slots = slots
    app.state.metrics = metrics
    app.state.startup = startup
    app.include_router(static_files().router())
    api.include(app)
    site.include(app)
    return app


async def _start(
    app: FastAPI, security: Security, database: Database, retention: AuditRetention, shares: CallerShares, url: str
) -> None:
    """Open the database, however long that takes, then start all parts."""
    startup: Startup = app.state.startup
    clusters: Clusters = app.state.clusters
    _prepare_first_visit(app)

    def prepare() -> str | None:
        database.upgrade()
        return security.prepare(url)

    app.state.login_link = await startup.open_database(prepare)
    await startup.retried(shares.start)
    await clusters.start()
    retention.start()


async def _stop(
    clusters: Clusters, security: Security, database: Database, retention: AuditRetention, shares: CallerShares
) -> None:
    """Stop all parts, including those that were never started."""
    await retention.stop()
    await clusters.stop()
    with contextlib.suppress(SQLAlchemyError):
        await shares.stop()
        await security.flush()
    await database.outage.stop()
    await asyncio.to_thread(database.close)


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
    clusters: Clusters = app.state.clusters
    server = WebServer(
        app,
        connections_max=app.state.connections_max,
        on_started=lambda: None,
        on_stopping=clusters.begin_stop,
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
