"""All JSON endpoints together."""

from fastapi import FastAPI

from app.rest import health

ROUTERS = (health.router,)


def include(app: FastAPI) -> None:
    """Add every endpoint to the application."""
    for router in ROUTERS:
        app.include_router(router)
