"""All JSON endpoints together."""

from fastapi import FastAPI

from app.rest import accounts, brokers, clusters, configs, health, quorum, reports, topics, voters

ROUTERS = (
    health.router,
    accounts.router,
    clusters.router,
    configs.router,  # before brokers and topics: `-/configs` is none of their names
    brokers.router,
    topics.router,
    quorum.router,
    voters.router,
    reports.router,
)


def include(app: FastAPI) -> None:
    """Add every endpoint to the application."""
    for router in ROUTERS:
        app.include_router(router)
