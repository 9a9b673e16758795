"""All pages together, for the web process to include, and the error page."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from app.http.errors import ApiError, NoSuchPathError
from app.pages import (
    access_control,
    accounts,
    acls,
    api_tokens,
    audit,
    brokers,
    changes,
    configs,
    dashboard,
    delegation_tokens,
    epochs,
    features,
    live,
    login,
    own_account,
    partitions,
    quorum,
    quotas,
    reports,
    scram,
    topic,
    topics,
    voters,
)
from app.pages.frame import environment, page_of

ROUTERS = (
    login.router,
    own_account.router,
    accounts.router,
    api_tokens.router,
    audit.router,
    dashboard.router,
    changes.router,
    live.router,
    quorum.router,
    epochs.router,
    voters.router,
    brokers.router,
    topics.router,
    configs.router,
    partitions.router,
    topic.router,
    features.router,
    access_control.router,
    acls.router,
    scram.router,
    quotas.router,
    delegation_tokens.router,
    reports.router,
)


def include(app: FastAPI) -> None:
    """Add every page to the application."""
    for router in ROUTERS:
        app.include_router(router)


def error_page(request: Request, error: ApiError) -> Response:
    """Return an error as a page."""
    title = error.code.replace("-", " ").capitalize()
    message = "There is no page at this address." if isinstance(error, NoSuchPathError) else error.message
    context = {"code": error.status, "message": message, "request_id": request.state.request_id}
    html = environment().get_template("error.html").render(page=page_of(request, title), **context)
    return HTMLResponse(html, error.status)
