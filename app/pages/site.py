"""All pages together: what the web process includes, and the page that says what went wrong."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from app.http.errors import ApiError
from app.pages import (
    access,
    account,
    brokers,
    configs,
    epochs,
    features,
    live,
    moves,
    overview,
    quorum,
    reports,
    rights,
    tokens,
    topic,
    topics,
    voters,
)
from app.pages.frame import environment, page_of

ROUTERS = (
    access.router,
    account.router,
    overview.router,
    live.router,
    quorum.router,
    epochs.router,
    voters.router,
    brokers.router,
    topics.router,
    configs.router,
    moves.router,
    topic.router,
    features.router,
    rights.router,
    tokens.router,
    reports.router,
)


def include(app: FastAPI) -> None:
    """Add every page to the application."""
    for router in ROUTERS:
        app.include_router(router)


def error_page(request: Request, error: ApiError) -> Response:
    """Answer a browser with an error."""
    title = error.code.replace("-", " ").capitalize()
    said = (
        "There is nothing at this address."
        if error.status == 404 and error.message.startswith("HTTP")
        else error.message
    )
    context = {"code": error.status, "message": said, "request_id": request.state.request_id}
    html = environment().get_template("error.html").render(page=page_of(request, title), **context)
    return HTMLResponse(html, error.status)
