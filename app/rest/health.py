"""Liveness, readiness and metrics. They need no login and name no topic, user or secret."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.cluster.cluster import Cluster
from app.cluster.quorum_text import state_text
from app.clusters import clusters_of
from app.error_responses import NATIVE
from app.http.errors import NOT_READY
from app.metrics import CONTENT_TYPE, Metrics
from app.rest.routing import JsonRoute
from app.services import ServicesDep
from app.startup import Startup

router = APIRouter(tags=[NATIVE, "health"], route_class=JsonRoute)

DATABASE_SECONDS: Final = 1.0  # longest wait for the database
FREE_BYTES_MIN: Final = 1 << 20
STALE_MS: Final = 10_000  # age at which an unconfirmed image is no longer ready


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Report that the process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request, services: ServicesDep) -> Response:
    """Report readiness: 200 when a cluster has been confirmed within 10 s and the database responds, else 503."""
    freshness = services.cluster.freshness
    startup: Startup = request.app.state.startup
    reasons = [] if startup.is_done else [f"the process is starting and waits for {startup.waits_for}"]
    found = {each.key: _troubles(each.cluster) for each in clusters_of(request).all()}
    if all(found.values()):
        reasons += found[services.key]
    trouble = await services.database.trouble(DATABASE_SECONDS) if startup.is_done else None
    disk = await asyncio.to_thread(full_disk, services.settings.data_dir)
    reasons += [each for each in (trouble, disk) if each is not None]
    body: dict[str, Any] = {
        "status": "ready" if not reasons else "not ready",
        "reasons": reasons,
        "metadata_offset": freshness.offset,
        "age_ms": freshness.age_ms,
    }
    return JSONResponse(body, NOT_READY, headers={"Retry-After": "1"}) if reasons else JSONResponse(body)


def _troubles(cluster: Cluster) -> list[str]:
    """Return why a cluster cannot be shown as it is now, nothing if it can."""
    freshness, quorum = cluster.freshness, cluster.quorum
    reasons = [cluster.foreign] if cluster.foreign else []
    if not freshness.is_ready:
        reasons.append("no metadata image yet")
    elif freshness.age_ms is None or freshness.age_ms > STALE_MS:
        reasons.append(f"the quorum has not confirmed the image for {freshness.age_ms} ms")
    if reasons or quorum.standing == "no-majority":
        reasons += filter(None, [state_text(quorum)])
    return reasons


def full_disk(folder: Path) -> str | None:
    """Return why files cannot be written to a folder, None when they can."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return f"the data folder cannot be read: {error.strerror}"
    free = disk.f_bavail * disk.f_frsize
    if free < FREE_BYTES_MIN:
        return f"the disk of the data folder is full: {free} bytes are free, {FREE_BYTES_MIN} are needed"
    return "the disk of the data folder has no free inodes" if disk.f_files and not disk.f_favail else None


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    made: Metrics = request.app.state.metrics
    return Response(made.text(), headers={"Content-Type": CONTENT_TYPE})
