"""What all audited changes share: the caller, and one audit event per change.

REST and pages change the cluster only through the actions, so every change is audited. A dry run changes nothing and is
not audited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from app.cluster.cluster import Cluster
from app.security.recorder import RequestInfo
from app.security.roles import Principal
from app.security.service import Security


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a change, and the request that carries it."""

    principal: Principal
    info: RequestInfo


@dataclass(slots=True)
class _Outcome:
    """The result of a change: the offset of its commit, or the error."""

    offset: int | None = None
    error: str | None = None


class Audited:
    """Base of the actions. Every method raises KafkaError or ConnectionError after the audit has stored the failure."""

    def __init__(self, cluster: Cluster, security: Security) -> None:
        self._cluster = cluster
        self._security = security

    @asynccontextmanager
    async def _audited(
        self, caller: Caller, action: str, resource: str, detail: dict[str, Any], dry_run: bool = False
    ) -> AsyncIterator[_Outcome]:
        """Write one audit event when the change ends, whether it succeeded or failed.

        While the audit cannot be stored, no change starts. If the database fails during a change, the change keeps its
        result and the event is only in the log.
        """
        if not dry_run:
            self._security.check_record()
        outcome = _Outcome()
        try:
            yield outcome
        except BaseException as error:  # also when the client disconnects: the controller may have made the change
            outcome.error = str(error) or type(error).__name__
            raise
        finally:
            if not dry_run:
                await self._security.record(
                    caller.principal.actor,
                    action,
                    resource,
                    "failed" if outcome.error else "ok",
                    caller.info,
                    error=outcome.error,
                    detail=detail,
                    metadata_offset=outcome.offset,
                )
