"""Changes as users make them: sent to the cluster, seen in the image, written to the audit. One call each.

REST and pages both go through here, so that no change escapes the audit. A dry run changes nothing and is not audited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.cluster.cluster import Cluster
from app.security.recorder import RequestInfo
from app.security.roles import Principal
from app.security.service import Security


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a change, and from where."""

    principal: Principal
    info: RequestInfo


@dataclass(slots=True)
class _Outcome:
    """Filled in by a change: where it was committed, and what else the audit should say."""

    offset: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class Audited:
    """Base of what changes the cluster. All raise KafkaError or ConnectionError, after the audit has it."""

    def __init__(self, cluster: Cluster, security: Security) -> None:
        self._cluster = cluster
        self._security = security

    @asynccontextmanager
    async def _audited(
        self, caller: Caller, action: str, resource: str, detail: dict[str, Any], dry_run: bool = False
    ) -> AsyncIterator[_Outcome]:
        """Write the change to the audit when it is over, whichever way it ended.

        While the audit cannot be written, no change begins. One that was made when the database failed keeps its answer:
        the audit's line is in the log.
        """
        if not dry_run:
            self._security.check_record()
        outcome = _Outcome()
        try:
            yield outcome
        except BaseException as error:  # also when the client goes away: the controller may have done it
            if not dry_run:
                await self._security.record(
                    caller.principal.actor,
                    action,
                    resource,
                    "failed",
                    caller.info,
                    error=str(error) or type(error).__name__,
                    detail=detail,
                )
            raise
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
