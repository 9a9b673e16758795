"""The endpoints of the JSON API, one router a subject."""

from fastapi import FastAPI

from app.rest import (
    accounts,
    acls,
    brokers,
    clusters,
    configs,
    controllers,
    delegation_tokens,
    features,
    health,
    partitions,
    quorum,
    quotas,
    records,
    reports,
    scram,
    topics,
    voters,
)

ROUTERS = tuple(
    subject.router
    for subject in (
        health,
        accounts,
        clusters,
        brokers,
        controllers,
        configs,
        topics,
        partitions,
        features,
        quorum,
        voters,
        records,
        acls,
        scram,
        quotas,
        delegation_tokens,
        reports,
    )
)


def include(app: FastAPI) -> None:
    """Add every endpoint to the application."""
    for router in ROUTERS:
        app.include_router(router)
