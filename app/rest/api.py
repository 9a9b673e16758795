"""All JSON endpoints together."""

from fastapi import FastAPI

from app.rest import (
    access,
    accounts,
    brokers,
    clusters,
    configs,
    health,
    nodes,
    operations,
    quorum,
    reports,
    tokens,
    topics,
    voters,
)

ROUTERS = (
    health.router,
    accounts.router,
    clusters.router,
    configs.router,  # before brokers and topics: `-/configs` is none of their names
    operations.router,  # before brokers and topics: `1:unregister` is none of their ids
    nodes.router,
    brokers.router,
    topics.router,
    quorum.router,
    voters.router,
    access.router,
    tokens.router,
    reports.router,
)


def include(app: FastAPI) -> None:
    """Add every endpoint to the application."""
    for router in ROUTERS:
        app.include_router(router)
