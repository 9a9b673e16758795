"""What the page of the cluster's own access control shows: its view model and how that is made from an image."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.cluster.acls import acls_of
from app.cluster.quotas import QuotaEntity
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_MECHANISMS_BY_TYPE
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType, acl_words

ROWS_MAX: Final = 1_000
DEFAULT_ITERATIONS: Final = 8192
QUOTA_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
ENTITY_TYPES: Final = ("user", "client-id", "ip")
FILTER_ONLY: Final = {"UNKNOWN", "ANY", "MATCH"}
NOTHING_GIVEN: Final[Mapping[str, str]] = MappingProxyType({})
YEAR_10000_MS: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class AclRow:
    """One ACL in Kafka's words; `fields` find it again."""

    resource: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ScramRow:
    """One password of a user."""

    name: str
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota; `entity` in words, `fields` find it again."""

    entity: str
    key: str
    value: float
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One delegation token, without what its holder shows."""

    token_id: str
    owner: str
    renewers: str
    ends_at: dt.datetime | None
    last_moment: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsView:
    """What rights.html shows; the words are what its forms offer, `given` what a form that was refused said."""

    acls: Sequence[AclRow]
    acls_total: int
    scram: Sequence[ScramRow]
    quotas: Sequence[QuotaRow]
    tokens: Sequence[TokenRow]
    tokens_total: int
    resource_types: Sequence[str]
    pattern_types: Sequence[str]
    operations: Sequence[str]
    permissions: Sequence[str]
    mechanisms: Sequence[str]
    iterations: int
    entity_types: Sequence[str]
    quota_keys: Sequence[str]
    error: str
    given: Mapping[str, str]


def acl_row(acl: StandardAcl) -> AclRow:
    """An ACL in words."""
    kind, pattern = ResourceType(acl.resource_type).name, PatternType(acl.pattern_type).name
    operation, permission = AclOperation(acl.operation).name, AclPermissionType(acl.permission_type).name
    fields = (
        ("resource_type", kind),
        ("resource_name", acl.resource_name),
        ("pattern_type", pattern),
        ("principal", acl.principal),
        ("host", acl.host),
        ("operation", operation),
        ("permission", permission),
    )
    return AclRow(
        f"{kind.lower()} {acl.resource_name}", pattern.lower(), acl.principal, acl.host, operation, permission, fields
    )


def entity_text(entity: QuotaEntity) -> str:
    """Whom a quota is for, in words."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def quota_rows(image: MetadataImage) -> list[QuotaRow]:
    """All quotas, by entity and key."""
    rows = []
    for entity, quotas in image.client_quotas.items():
        fields = [
            each for kind, name in entity for each in ((kind, name or ""), (f"{kind}-default", "" if name else "yes"))
        ]
        rows += [QuotaRow(entity_text(entity), key, value, [*fields, ("key", key)]) for key, value in quotas.items()]
    return sorted(rows, key=lambda row: (row.entity, row.key))


def date_of(timestamp_ms: int) -> dt.datetime | None:
    """A moment; None for one that no calendar has."""
    return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC) if 0 <= timestamp_ms < YEAR_10000_MS else None


def token_rows(image: MetadataImage) -> list[TokenRow]:
    """The delegation tokens, the one that ends next first."""
    tokens = sorted(image.delegation_tokens.values(), key=lambda each: (each.expiration_timestamp, each.token_id))
    return [
        TokenRow(
            each.token_id,
            each.owner,
            ", ".join(each.renewers) or "its owner alone",
            date_of(each.expiration_timestamp),
            date_of(each.max_timestamp),
        )
        for each in tokens[:ROWS_MAX]
    ]


def rights_view(image: MetadataImage, error: str = "", given: Mapping[str, str] = NOTHING_GIVEN) -> RightsView:
    """The whole page."""
    acls = acls_of(image, AclFilter())
    return RightsView(
        acls=[acl_row(acl) for acl in acls[:ROWS_MAX]],
        acls_total=len(acls),
        scram=[
            ScramRow(name, SCRAM_MECHANISMS_BY_TYPE[kind].name, credential.iterations)
            for kind in sorted(image.scram)
            for name, credential in sorted(image.scram[kind].items())
        ],
        quotas=quota_rows(image),
        tokens=token_rows(image),
        tokens_total=len(image.delegation_tokens),
        resource_types=acl_words(ResourceType),
        pattern_types=acl_words(PatternType),
        operations=acl_words(AclOperation),
        permissions=acl_words(AclPermissionType),
        mechanisms=list(SCRAM_MECHANISMS),
        iterations=DEFAULT_ITERATIONS,
        entity_types=ENTITY_TYPES,
        quota_keys=QUOTA_KEYS,
        error=error,
        given=given,
    )
