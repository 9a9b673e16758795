"""What operators change beyond topics and configs, each written to the audit. REST and pages both go through here.

Partitions moved and leaders elected, brokers forgotten, features raised, access given and taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.actions import Audited, Caller
from app.cluster.access import QuotaEntity
from app.cluster.operations import (
    Assignments,
    ElectionType,
    FeatureUpdate,
    Outcome,
    Partition,
)
from app.cluster.tokens import CreatedToken
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.scram_mechanism import ScramMechanism
from kraft_core.protocol.errors import KafkaError


class OperatorActions(Audited):
    """Changes of partitions, brokers, features and access."""

    async def alter_reassignments(
        self, caller: Caller, wanted: Assignments, *, may_change_factor: bool = True, validate_only: bool = False
    ) -> Outcome:
        """Begin or cancel reassignments. See Operations."""
        detail = {
            f"{topic}-{index}": "cancel" if replicas is None else list(replicas)
            for (topic, index), replicas in wanted.items()
        }
        resource = _resource_of(list(wanted))
        async with self._audited(caller, "partitions.reassign", resource, detail, validate_only) as outcome:
            done = await self._cluster.operations.alter_reassignments(
                wanted, may_change_factor=may_change_factor, validate_only=validate_only
            )
            outcome.offset, outcome.error = done.offset, _said(done.failures)
        return done

    async def elect_leaders(
        self, caller: Caller, election: ElectionType, partitions: Sequence[Partition], *, validate_only: bool = False
    ) -> Outcome:
        """Hold elections. See Operations."""
        detail: dict[str, Any] = {
            "election_type": election.name,
            "partitions": [f"{topic}-{index}" for topic, index in partitions],
        }
        resource = _resource_of(partitions)
        async with self._audited(caller, "partitions.elect", resource, detail, validate_only) as outcome:
            done = await self._cluster.operations.elect_leaders(election, partitions, validate_only=validate_only)
            outcome.offset, outcome.error = done.offset, _said(done.failures)
        return done

    async def unregister_broker(
        self, caller: Caller, broker_id: int, *, force: bool = False, validate_only: bool = False
    ) -> int | None:
        """Forget a broker; returns the offset, None for a dry run. Raises BrokerInUseError unless forced."""
        detail = {"force": force}
        async with self._audited(caller, "broker.unregister", f"broker/{broker_id}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.operations.unregister_broker(
                broker_id, force=force, validate_only=validate_only
            )
        return offset

    async def update_features(
        self, caller: Caller, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> int | None:
        """Change feature levels; returns the offset, None for a dry run."""
        levels = self._cluster.image.features
        detail = {
            update.name: {"from": levels.level(update.name), "to": update.level, "upgrade_type": update.upgrade_type}
            for update in updates
        }
        resource = "feature/" + (updates[0].name if len(updates) == 1 else "*")
        async with self._audited(caller, "features.update", resource, detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.operations.update_features(
                updates, validate_only=validate_only
            )
        return offset

    async def create_acls(
        self, caller: Caller, acls: Sequence[StandardAcl], *, validate_only: bool = False
    ) -> int | None:
        """Create ACLs; returns the offset, None for a dry run."""
        detail = {"acls": [str(acl) for acl in acls]}
        async with self._audited(caller, "acls.create", "acl/*", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.access.create_acls(acls, validate_only=validate_only)
        return offset

    async def delete_acls(
        self, caller: Caller, wanted: AclFilter, *, validate_only: bool = False
    ) -> tuple[int | None, list[StandardAcl]]:
        """Delete the ACLs that a filter fits; returns the offset, None for a dry run, and what was deleted."""
        detail: dict[str, Any] = {"filter": repr(wanted)}
        async with self._audited(caller, "acls.delete", "acl/*", detail, validate_only) as outcome:
            outcome.offset, deleted = await self._cluster.access.delete_acls(wanted, validate_only=validate_only)
            detail["acls"] = [str(acl) for acl in deleted]
        return outcome.offset, deleted

    async def put_scram_user(
        self,
        caller: Caller,
        name: str,
        mechanism: ScramMechanism,
        password: str,
        iterations: int,
        *,
        validate_only: bool = False,
    ) -> int | None:
        """Set a SCRAM user's password; returns the offset, None for a dry run. The audit does not have the password."""
        detail = {"mechanism": mechanism.name, "iterations": iterations}
        async with self._audited(caller, "scram.put", f"scram-user/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.access.put_scram_user(
                name, mechanism, password, iterations, validate_only=validate_only
            )
        return offset

    async def delete_scram_user(
        self, caller: Caller, name: str, mechanism: ScramMechanism, *, validate_only: bool = False
    ) -> int | None:
        """Take a SCRAM user's password away; returns the offset, None for a dry run."""
        detail = {"mechanism": mechanism.name}
        async with self._audited(caller, "scram.delete", f"scram-user/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.access.delete_scram_user(
                name, mechanism, validate_only=validate_only
            )
        return offset

    async def alter_client_quota(
        self, caller: Caller, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> int | None:
        """Set or remove quotas of one entity; returns the offset, None for a dry run."""
        resource = "quota/" + ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
        async with self._audited(caller, "quota.alter", resource, dict(changes), validate_only) as outcome:
            outcome.offset = offset = await self._cluster.access.alter_client_quota(
                entity, changes, validate_only=validate_only
            )
        return offset

    async def create_delegation_token(
        self, caller: Caller, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int
    ) -> CreatedToken:
        """Make a delegation token."""
        detail: dict[str, Any] = {"owner": owner, "renewers": list(renewers), "max_lifetime_ms": max_lifetime_ms}
        async with self._audited(caller, "delegation-token.create", "delegation-token/*", detail) as outcome:
            made = await self._cluster.tokens.create(owner, renewers, max_lifetime_ms)
            outcome.offset = made.offset
            detail |= {"owner": made.token.owner, "token_id": made.token.token_id}
        return made

    async def check_delegation_token(
        self, *, hmac: bytes | None = None, owner: str | None = None, renewers: tuple[str, ...] = ()
    ) -> None:
        """Check a change of delegation tokens without making it; see DelegationTokenAdmin.check."""
        await self._cluster.tokens.check(hmac, owner, renewers)

    async def renew_delegation_token(self, caller: Caller, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Put a token's end off; returns the offset and the new end."""
        detail: dict[str, Any] = {"period_ms": period_ms}
        async with self._audited(caller, "delegation-token.renew", "delegation-token/*", detail) as outcome:
            outcome.offset, detail["expiry_timestamp"] = end = await self._cluster.tokens.renew(hmac, period_ms)
        return end

    async def expire_delegation_token(self, caller: Caller, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Set when a token ends; returns the offset and that moment."""
        detail: dict[str, Any] = {"period_ms": period_ms}
        async with self._audited(caller, "delegation-token.expire", "delegation-token/*", detail) as outcome:
            outcome.offset, detail["expiry_timestamp"] = end = await self._cluster.tokens.expire(hmac, period_ms)
        return end


def _resource_of(partitions: Sequence[Partition]) -> str:
    """Name the topic if it is one, for the audit."""
    topics = {topic for topic, _ in partitions}
    return f"topic/{topics.pop() if len(topics) == 1 else '*'}"


def _said(failures: Mapping[Partition, KafkaError]) -> str | None:
    return "; ".join(f"{topic}-{index}: {error.message}" for (topic, index), error in failures.items()) or None
