"""The clusters of this process as admins change them: tested before they are kept, and written to the audit."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.actions.audited import Caller
from app.cluster.identity import ask_cluster_id
from app.cluster.known_clusters import (
    ClusterConflictError,
    ClusterError,
    ClusterSpec,
    check,
    put_cluster,
    remove_cluster,
)
from app.config import Settings, SettingsError
from app.db.database import Database
from app.db.models import ClusterRecord
from app.records.schema_registry import RegistrySettings, SchemaError, SchemaRegistry
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import ACTIVE_STATES
from app.reports.models import ACTIVE_STATES as ACTIVE_RUNS
from app.reports.models import ReportRun
from app.security.service import Security
from app.texts import phrase, sentence_of
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.host_port import host_port
from kraft_core.security.listener_security import ClientSecurity

TEST_SECONDS: Final = 5.0
"""How long the test of one address may take."""


@dataclass(frozen=True, slots=True)
class ClusterTest:
    """What the controllers of a cluster answered: its id, and for each address the error, "" for none.

    `registry` is the address of its schema registry, which has answered, "" for none.
    """

    cluster_id: str
    answers: Mapping[str, str]
    registry: str


class ClusterActions:
    """Adds, changes and removes clusters.

    `known` returns the ids of the clusters of this process by key; `follow` is awaited after each change.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        security: Security,
        known: Callable[[], Mapping[str, str | None]],
        follow: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._database = database
        self._security = security
        self._known = known
        self._follow = follow

    async def test(self, spec: ClusterSpec) -> ClusterTest:
        """Check a cluster and ask its controllers for the cluster id. Raises ClusterError unless one of them answers.

        All that answer must name the same cluster, and none that this process has under another key. A schema registry
        must answer too.
        """
        check(spec, self._settings.client_configs_dir)
        try:
            settings = self._settings.for_cluster(
                spec.key, spec.command_config, schema_registry_url=spec.schema_registry_url or None
            )
        except SettingsError as wrong:
            raise ClusterError(str(wrong), "command_config") from None
        found = await asyncio.gather(*(_answer(host, port, settings.kafka_security) for host, port in spec.bootstrap))
        answers = {host_port(*place): error for place, (_, error) in zip(spec.bootstrap, found, strict=True)}
        ids = sorted({cluster_id for cluster_id, _ in found if cluster_id})
        if len(ids) > 1:
            text = phrase("The controllers belong to different clusters: %(ids)s.", ids=", ".join(ids))
            raise ClusterError(text, "bootstrap_controllers")
        if not ids:
            said = "; ".join(f"{place}: {error}" for place, error in answers.items())
            raise ClusterError(phrase("No controller answers: %(errors)s", errors=said[:1000]), "bootstrap_controllers")
        twins = [key for key, cluster_id in self._known().items() if cluster_id == ids[0] and key != spec.key]
        if twins:
            text = phrase("Cluster %(id)s is here already.", id=ids[0])
            raise ClusterConflictError(text, "bootstrap_controllers")
        await _check_registry(settings)
        return ClusterTest(ids[0], answers, spec.schema_registry_url)

    async def put(
        self, caller: Caller, spec: ClusterSpec, *, is_new: bool, validate_only: bool = False
    ) -> tuple[ClusterTest, ClusterRecord]:
        """Add or change a cluster after a test, and return both. Raises ClusterError."""
        tested = await self.test(spec)
        arguments = (spec, tested.cluster_id, caller.principal.audit_name)
        if validate_only:
            return tested, await self._database.dry_run(put_cluster, *arguments, is_new=is_new)
        record = await self._database.write(put_cluster, *arguments, is_new=is_new)
        detail: dict[str, object] = {
            "name": spec.name,
            "cluster_id": tested.cluster_id,
            "bootstrap_controllers": list(spec.bootstrap_controllers),
            "command_config": spec.command_config,
            "schema_registry_url": spec.schema_registry_url,
            "color": spec.color,
        }
        await self._record(caller, "cluster.add" if is_new else "cluster.change", spec.key, detail)
        await self._follow()
        return tested, record

    async def remove(self, caller: Caller, key: str, *, validate_only: bool = False) -> None:
        """Remove a cluster with its reports, schedules, plans and tokens from this process. Raises ClusterError."""
        if validate_only:
            await self._database.dry_run(_remove, key)
            return
        await self._database.write(_remove, key)
        await self._record(caller, "cluster.remove", key, {})
        await self._follow()

    async def _record(self, caller: Caller, action: str, key: str, detail: dict[str, object]) -> None:
        await self._security.record(caller.principal.actor, action, f"cluster/{key}", "ok", caller.info, detail=detail)


async def _check_registry(settings: Settings) -> None:
    """Raise ClusterError when the settings name a schema registry that does not answer."""
    registry = RegistrySettings.of(settings)
    if registry is None:
        return
    try:
        await SchemaRegistry(registry).check()
    except SchemaError as error:
        text = phrase("%(url)s is not kept: %(error)s.", url=registry.url, error=sentence_of(error))
        raise ClusterError(text, "schema_registry_url") from None


async def _answer(host: str, port: int, security: ClientSecurity) -> tuple[str, str]:
    """Return the cluster id that a controller names, "" for none, and the error."""
    try:
        async with asyncio.timeout(TEST_SECONDS):
            return await ask_cluster_id(host, port, security), ""
    except TimeoutError:
        return "", phrase("no answer within %(seconds)s s", seconds=f"{TEST_SECONDS:g}")
    except (ConnectionError, KafkaError) as error:
        return "", str(error)


def _remove(session: Session, key: str) -> None:
    plans = select(PlanRecord.id).where(PlanRecord.cluster == key, PlanRecord.state.in_(ACTIVE_STATES))
    if (running := session.scalar(plans.limit(1))) is not None:
        text = phrase("Plan %(id)s of this cluster is being executed: cancel it first.", id=running)
        raise ClusterConflictError(text)
    reports = select(ReportRun.id).where(ReportRun.cluster == key, ReportRun.state.in_(ACTIVE_RUNS))
    if (running := session.scalar(reports.limit(1))) is not None:
        text = phrase("Report %(id)s of this cluster is running: wait for it, or cancel it first.", id=running)
        raise ClusterConflictError(text)
    remove_cluster(session, key)
