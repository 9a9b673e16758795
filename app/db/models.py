"""Tables of the web process: accounts, audit, shares of limits, idempotency keys and epochs of quorums.

Secrets are stored as digests: passwords are argon2 hashes; session ids, API tokens and login links are SHA-256 digests.
Each has at least 128 random bits, so a plain digest cannot be reversed. Only second factors are sealed: see totp.
"""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import PK, Base, ClusterKey, Digest, Moment, Name, OfCluster, Offset, UtcDateTime

ROLES = ("viewer", "editor", "admin")
USER_ROLES = ("none", *ROLES)


class User(Base):
    """A person who can log in. Without a password, only by a one-time link.

    With `issuer` and `subject`, a user of an OpenID issuer, who logs in there and nowhere else. `role_lost_at`: since
    then the user's groups there give no role. `totp_secret` is sealed; `totp_last_step` is the newest code used.
    """

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint("role in ('none', 'viewer', 'editor', 'admin')", name="role"),
        Index("ix_users_issuer_subject", "issuer", "subject", unique=True),
    )
    id: Mapped[PK]
    name: Mapped[Name]
    role: Mapped[str] = mapped_column(String(16))
    issuer: Mapped[str | None] = mapped_column(String(512))
    subject: Mapped[str | None] = mapped_column(String(255))
    role_lost_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    password_hash: Mapped[str | None] = mapped_column(String(255))
    totp_secret: Mapped[str | None] = mapped_column(String(255))
    totp_last_step: Mapped[Offset | None]
    recovery_digests: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[Moment]
    password_changed_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    last_login_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    disabled_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    sessions: Mapped[list["Session"]] = relationship(back_populates="user", cascade="all, delete-orphan")
    grants: Mapped[list["RoleGrant"]] = relationship(lazy="selectin", cascade="all, delete-orphan")

    @property
    def is_active(self) -> bool:
        """Whether the user, and the tokens created by it, have their rights."""
        return self.disabled_at is None and self.role_lost_at is None


class RoleGrant(OfCluster, Base):
    """A role of a user in one cluster, beyond the user's own; see app.security.roles.Grant.

    `from_group` is the issuer's group that gives it since the user's last login, "" for one that an admin gave.
    """

    __tablename__ = "role_grants"
    __table_args__ = (
        UniqueConstraint("user_id", "cluster", "topic_prefix", "from_group"),
        CheckConstraint("role in ('viewer', 'editor', 'admin')", name="role"),
    )
    id: Mapped[PK]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    topic_prefix: Mapped[str] = mapped_column(String(249))
    from_group: Mapped[Name] = mapped_column(server_default="", default="")
    role: Mapped[str] = mapped_column(String(16))


class Session(Base):
    """A browser session. `id_digest` is the digest of the cookie; `opened_by` is password, link or oidc."""

    __tablename__ = "sessions"
    __table_args__ = (UniqueConstraint("id_digest"), Index(None, "expires_at"))
    id: Mapped[PK]
    id_digest: Mapped[Digest]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[Moment]
    last_seen_at: Mapped[Moment]
    expires_at: Mapped[Moment]
    source: Mapped[str] = mapped_column(String(64))
    user_agent: Mapped[str] = mapped_column(String(255), server_default="")
    opened_by: Mapped[str] = mapped_column(String(16), server_default="password")
    user: Mapped[User] = relationship(back_populates="sessions", lazy="joined", innerjoin=True)


class ApiToken(Base):
    """A token for programs, sent as Bearer or as Basic with its name. `hint` is its beginning, to distinguish tokens.

    `maker_id` is the user who created it, `parent_id` the token that did. It is valid only with its maker, and its
    rights never exceed its maker's present rights. Only the token of the environment has neither. With the key of a
    `cluster` it is valid there only, and with a `topic_prefix` for its topics whose names start with it.
    """

    __tablename__ = "api_tokens"
    __table_args__ = (
        UniqueConstraint("token_digest"),
        UniqueConstraint("name"),
        CheckConstraint("role in ('viewer', 'editor', 'admin')", name="role"),
    )
    id: Mapped[PK]
    name: Mapped[Name]
    token_digest: Mapped[Digest]
    hint: Mapped[str] = mapped_column(String(16))
    role: Mapped[str] = mapped_column(String(16))
    scopes: Mapped[list[str]] = mapped_column(JSON)
    cluster: Mapped[str | None] = mapped_column(String(32))
    topic_prefix: Mapped[str] = mapped_column(String(249), server_default="", default="")
    created_by: Mapped[Name]
    maker_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("api_tokens.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[Moment]
    expires_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)


class LoginLink(Base):
    """A link that logs in once. Using it, or creating another for the same user, ends it.

    `is_way_in`: created at a start or by `conclave login-link`, not by an admin. A database has at most one of these.
    """

    __tablename__ = "login_links"
    __table_args__ = (UniqueConstraint("token_digest"),)
    id: Mapped[PK]
    token_digest: Mapped[Digest]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[Moment]
    expires_at: Mapped[Moment]
    used_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    is_way_in: Mapped[bool] = mapped_column(server_default=false())
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)


class KeptForm(Base):
    """A form that arrived after its session had ended, encrypted with the key whose digest is `key_digest`."""

    __tablename__ = "kept_forms"
    __table_args__ = (Index(None, "expires_at"),)
    key_digest: Mapped[Digest] = mapped_column(primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    expires_at: Mapped[Moment]


class AuditEvent(OfCluster, Base):
    """One login, denial or change: actor, source, action, resource and result.

    `metadata_offset` is the offset of a cluster change in the metadata log. `count` is the number of times it happened
    within its minute: failures of anonymous callers are counted together, by source and action.
    """

    __tablename__ = "audit_events"
    __table_args__ = (
        Index(None, "at"),
        Index(None, "resource"),
        Index(None, "actor"),
        CheckConstraint("result in ('ok', 'denied', 'failed')", name="result"),
    )
    id: Mapped[PK]
    at: Mapped[Moment]
    actor: Mapped[Name]
    actor_kind: Mapped[str] = mapped_column(String(16))
    source: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    resource: Mapped[str] = mapped_column(String(512))
    result: Mapped[str] = mapped_column(String(8))
    error: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
    request_id: Mapped[str] = mapped_column(String(64))
    metadata_offset: Mapped[Offset | None]
    count: Mapped[int] = mapped_column(server_default="1", default=1)


class LoginFailure(Base):
    """A wrong login, token or code. `key_digest`: of what is counted, such as an account with a source."""

    __tablename__ = "login_failures"
    __table_args__ = (Index(None, "key_digest", "at"), Index(None, "at"))
    id: Mapped[PK]
    key_digest: Mapped[Digest]
    at: Mapped[Moment]


class WebProcess(Base):
    """A running web process and what it has leased of the limits per caller; see app.security.caller_shares.

    `leased`: slots by pool and holder. A process that has ended without notice loses them at `lease_until`.
    """

    __tablename__ = "web_processes"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    lease_until: Mapped[Moment]
    leased: Mapped[dict[str, dict[str, int]]] = mapped_column(JSON)


class ClusterRecord(Base):
    """A cluster beside that of the settings; see app.cluster.known_clusters.

    `command_config` is the name of a file of client properties on the server, "" for a plaintext connection: no secret
    is in the database, also not that of the schema registry (`schema_registry_url`, "" for none). `cluster_id` is the
    id that its controllers gave when the address was tested.
    """

    __tablename__ = "clusters"
    __table_args__ = (UniqueConstraint("key"), UniqueConstraint("cluster_id"))
    id: Mapped[PK]
    key: Mapped[ClusterKey]
    name: Mapped[str] = mapped_column(String(60))
    bootstrap_controllers: Mapped[str] = mapped_column(String(2048))
    command_config: Mapped[Name]
    schema_registry_url: Mapped[str] = mapped_column(String(500), server_default="", default="")
    color: Mapped[str] = mapped_column(String(16))
    cluster_id: Mapped[str] = mapped_column(String(64))
    changed_by: Mapped[Name]
    changed_at: Mapped[Moment]


class IdempotencyKey(Base):
    """The response to a request with an Idempotency-Key. `status` is None while the request runs."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (UniqueConstraint("key", "actor"), Index(None, "created_at"))
    id: Mapped[PK]
    key: Mapped[Name]
    actor: Mapped[Name]
    fingerprint: Mapped[Digest]
    created_at: Mapped[Moment]
    status: Mapped[int | None]
    headers: Mapped[dict[str, str]] = mapped_column(JSON)
    body: Mapped[str] = mapped_column(Text)


class QuorumEpoch(OfCluster, Base):
    """One epoch of a quorum, kept beyond the log's retention. The fields are those of app.cluster.epochs.Epoch.

    Times are ms since 1970, as in the log; -1 means unknown.
    """

    __tablename__ = "quorum_epochs"
    __table_args__ = (UniqueConstraint("cluster_id", "epoch"),)
    id: Mapped[PK]
    cluster_id: Mapped[str] = mapped_column(String(64))
    epoch: Mapped[int]
    leader_id: Mapped[int]
    start_offset: Mapped[Offset]
    timestamp_ms: Mapped[Offset]
    voter_ids: Mapped[list[int]] = mapped_column(JSON)
    granting_voter_ids: Mapped[list[int]] = mapped_column(JSON)
    last_offset: Mapped[Offset]
    last_timestamp_ms: Mapped[Offset]
    leaderless_ms: Mapped[Offset]
    lost_at_ms: Mapped[Offset]
    lost_how: Mapped[str | None] = mapped_column(String(16))


class LongElectionRecord(OfCluster, Base):
    """An election of very many partitions; see app.actions.long_elections.

    `partitions`: [topic, [partition, …]], sorted. `leaders_before`: of each broker. The first `done` partitions have
    been answered. The process that holds the election extends `lease_until`.
    """

    __tablename__ = "long_elections"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    election: Mapped[str] = mapped_column(String(16))
    by: Mapped[Name]
    partitions: Mapped[list[Any]] = mapped_column(JSON)
    leaders_before: Mapped[dict[str, int]] = mapped_column(JSON)
    begun_at: Mapped[Moment]
    lease_until: Mapped[Moment]
    ended_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    done: Mapped[int] = mapped_column(default=0)
    metadata_offset: Mapped[Offset | None]
    waits_for: Mapped[str] = mapped_column(Text, default="")
    stopped_by: Mapped[str] = mapped_column(Text, default="")


class ElectionRefusals(Base):
    """Partitions that an election was refused: [topic, partition, error, message], of those before number `done`."""

    __tablename__ = "election_refusals"
    election_id: Mapped[str] = mapped_column(ForeignKey("long_elections.id", ondelete="CASCADE"), primary_key=True)
    done: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    refused: Mapped[list[Any]] = mapped_column(JSON)
