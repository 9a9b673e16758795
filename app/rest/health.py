"""Whether the process lives, whether it can serve, and its numbers. Open without a login; they name nothing secret."""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.answers import NATIVE
from app.cluster.quorum_words import state_text
from app.metrics import CONTENT_TYPE, Metrics
from app.rest.routing import JsonRoute
from app.services import ServicesDep

router = APIRouter(tags=[NATIVE, "health"], route_class=JsonRoute)

STALE_MS: Final = 10_000  # an image that nobody has confirmed for so long is not served as ready


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process runs and its loop answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(services: ServicesDep) -> Response:
    """200 when there is an image the quorum has confirmed lately and the database answers, else 503 with the reasons."""
    freshness = services.cluster.freshness
    reasons: list[str] = []
    if not freshness.is_ready:
        reasons.append("no metadata image yet")
    elif freshness.age_ms is None or freshness.age_ms > STALE_MS:
        reasons.append(f"the quorum has not confirmed the image for {freshness.age_ms} ms")
    quorum = services.cluster.quorum
    if reasons or quorum.standing == "no-majority":
        reasons += filter(None, [state_text(quorum)])
    try:
        await services.database.read(_ask_database)
    except Exception as error:  # noqa: BLE001 - whatever the driver raises: the database cannot be used
        reasons.append(f"the database does not answer: {type(error).__name__}")
    body: dict[str, Any] = {
        "status": "ready" if not reasons else "not ready",
        "reasons": reasons,
        "metadata_offset": freshness.offset,
        "age_ms": freshness.age_ms,
    }
    return JSONResponse(body, 200 if not reasons else 503, headers={} if not reasons else {"Retry-After": "1"})


def _ask_database(session: Session) -> None:
    session.execute(text("SELECT 1"))


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Numbers in Prometheus' text form."""
    made: Metrics = request.app.state.metrics
    return Response(made.text(), headers={"Content-Type": CONTENT_TYPE})
