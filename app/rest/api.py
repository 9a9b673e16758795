"""The endpoints of the JSON API, one router a subject."""

from fastapi import FastAPI

from app.rest import (
    accounts,
    acls,
    brokers,
    cluster_connections,
    clusters,
    configs,
    controllers,
    delegation_tokens,
    deletions,
    elections,
    features,
    groups,
    health,
    log_events,
    partitions,
    plan_files,
    plans,
    quorum,
    quotas,
    records,
    report_schedules,
    reports,
    scram,
    topic_records,
    topics,
    transactions,
    voters,
)
from app.rest.openapi import OpenApi

ROUTERS = tuple(
    subject.router
    for subject in (
        health,
        accounts,
        clusters,
        cluster_connections,
        brokers,
        controllers,
        configs,
        topics,
        partitions,
        elections,
        groups,
        transactions,
        topic_records,
        plans,
        features,
        quorum,
        voters,
        records,
        log_events,
        acls,
        deletions,
        scram,
        quotas,
        delegation_tokens,
        report_schedules,
        reports,
        plan_files,
    )
)


def include(app: FastAPI) -> None:
    """Add every endpoint to the application, and their description at `/openapi.json`."""
    for router in ROUTERS:
        app.include_router(router)
    app.state.openapi = OpenApi(app, [route for router in ROUTERS for route in router.routes])
    app.add_api_route("/openapi.json", app.state.openapi.answer, include_in_schema=False)
