"""All pages together, for the web process to include, and the error page."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from app.http.cluster_paths import under_root
from app.http.errors import ApiError, NoSuchPathError
from app.pages import (
    access_control,
    accounts,
    acl_import,
    acl_presets,
    acls,
    api_tokens,
    audit,
    broker_timeline,
    brokers,
    changes,
    clusters,
    columns,
    configs,
    dashboard,
    delegation_tokens,
    differences,
    downloads,
    elections,
    epochs,
    explorer,
    features,
    flaps,
    group_changes,
    groups,
    kept_form,
    language,
    live,
    login,
    long_elections,
    messages,
    moves,
    own_account,
    own_tokens,
    partitions,
    plan_changes,
    plans,
    principals,
    produce,
    quorum,
    quotas,
    report,
    report_rows,
    report_schedules,
    reports,
    scram,
    search,
    second_factor,
    selected_acls,
    selected_groups,
    selected_topics,
    theme,
    topic,
    topic_again,
    topic_clients,
    topics,
    transaction_abort,
    transactions,
    user_grants,
    user_sessions,
    voters,
)
from app.pages.frame import html_of, page_of
from app.pages.past import past_paths
from app.services import root_of
from app.texts import Text, phrase, recognised

ROUTERS = (
    login.router,
    kept_form.router,
    own_account.router,
    own_tokens.router,
    second_factor.router,
    accounts.router,
    user_grants.router,
    user_sessions.router,
    api_tokens.router,
    audit.router,
    clusters.router,
    dashboard.router,
    differences.router,
    changes.router,
    flaps.router,
    live.router,
    quorum.router,
    epochs.router,
    voters.router,
    brokers.router,
    broker_timeline.router,
    topics.router,
    selected_topics.router,
    configs.router,
    partitions.router,
    elections.router,
    long_elections.router,
    plans.router,
    moves.router,
    plan_changes.router,
    topic_again.router,
    messages.router,
    produce.router,
    topic.router,
    topic_clients.router,
    groups.router,
    group_changes.router,
    selected_groups.router,
    transaction_abort.router,
    transactions.router,
    explorer.router,
    features.router,
    access_control.router,
    acl_import.router,
    acl_presets.router,
    principals.router,
    acls.router,
    selected_acls.router,
    scram.router,
    search.router,
    language.router,
    theme.router,
    columns.router,
    quotas.router,
    delegation_tokens.router,
    report_schedules.router,
    reports.router,
    report.router,
    downloads.router,
    report_rows.router,
)


TITLES: Final = {
    "bad-request": phrase("Bad request"),
    "forbidden": phrase("Forbidden"),
    "not-found": phrase("Not found"),
    "conflict": phrase("Conflict"),
    "gone": phrase("Gone"),
    "too-many-requests": phrase("Too many requests"),
    "internal-error": phrase("Internal error"),
    "unavailable": phrase("Unavailable"),
    "unprocessable-content": phrase("Unprocessable content"),
    "controller-timeout": phrase("Controller timeout"),
    "no-active-controller": phrase("No active controller"),
    "csrf": phrase("Csrf"),
    "unknown-parameter": phrase("Unknown parameter"),
    "state-being-prepared": phrase("State being prepared"),
    "starting": phrase("Starting"),
    "unauthorized": phrase("Unauthorized"),
    "login-refused": phrase("Login refused"),
    "method-not-allowed": phrase("Method not allowed"),
    "content-too-large": phrase("Content too large"),
    "misdirected-request": phrase("Misdirected request"),
    "timeout": phrase("Timeout"),
    "offset-gone": phrase("Offset gone"),
    "offset-not-committed": phrase("Offset not committed"),
    "history-unreadable": phrase("History unreadable"),
    "database-unavailable": phrase("Database unavailable"),
    "foreign-cluster": phrase("Foreign cluster"),
    "too-many-readers": phrase("Too many readers"),
    "partition-unavailable": phrase("Partition unavailable"),
    "broker-in-use": phrase("Broker in use"),
    "plan-state": phrase("Plan state"),
    "report-busy": phrase("Report busy"),
    "report-not-running": phrase("Report not running"),
}
"""The titles of errors by code; those of Kafka have their code."""


def include(app: FastAPI) -> None:
    """Add every page to the application."""
    for router in ROUTERS:
        app.include_router(router)
    app.state.shared_parts = {}
    app.state.state_events = {}
    app.state.past_paths = past_paths(route for router in ROUTERS for route in router.routes)


def error_page(request: Request, error: ApiError) -> Response:
    """Return an error as a page."""
    title = TITLES.get(error.code) or error.code.replace("-", " ").capitalize()
    message = phrase("There is no page at this address.") if isinstance(error, NoSuchPathError) else error.message
    if not isinstance(message, Text):
        message = recognised(message)
    context = {"code": error.status, "message": message, "request_id": request.state.request_id}
    html = html_of(request, "error.html", page=page_of(request, title), **context)
    return HTMLResponse(under_root(root_of(request), html), error.status)
