"""The page of the cluster's own access control: ACLs, SCRAM users, client quotas and delegation tokens."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.acls import acls_of
from app.pages.frame import page_of, render
from app.services import PastAdmin, services_of
from kraft_core.clients.admin.quotas import ClientQuotaEntity
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_MECHANISMS_BY_TYPE
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType, acl_words

router = APIRouter(include_in_schema=False)

TITLE: Final = "Access control"
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
NOTHING_GIVEN: Final[Mapping[str, str]] = MappingProxyType({})
YEAR_10000_MS: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class AclRow:
    """One ACL in Kafka's words; `fields` identify it in a form."""

    resource: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ScramRow:
    """One SCRAM credential."""

    name: str
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota; `fields` identify it in a form."""

    entity: str
    key: str
    value: float
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One delegation token, without its HMAC."""

    token_id: str
    owner: str
    renewers: str
    expires_at: dt.datetime | None
    max_expiry: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlView:
    """Model of access_control.html. The forms offer the words; `given` are the values of a form that was refused."""

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
    """Return an ACL in words."""
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


def entity_text(entity: ClientQuotaEntity) -> str:
    """Return the entity of a quota in words: `user alice, client-id (default)`."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def quota_rows(image: MetadataImage) -> list[QuotaRow]:
    """Return all quotas, by entity and key."""
    rows = []
    for entity, quotas in image.client_quotas.items():
        fields = [
            each for kind, name in entity for each in ((kind, name or ""), (f"{kind}-default", "" if name else "yes"))
        ]
        rows += [QuotaRow(entity_text(entity), key, value, [*fields, ("key", key)]) for key, value in quotas.items()]
    return sorted(rows, key=lambda row: (row.entity, row.key))


def date_of(timestamp_ms: int) -> dt.datetime | None:
    """Return a timestamp as a datetime, None outside the years 1970 to 9999."""
    return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC) if 0 <= timestamp_ms < YEAR_10000_MS else None


def token_rows(image: MetadataImage) -> list[TokenRow]:
    """Return at most ROWS_MAX delegation tokens, the next to expire first."""
    tokens = sorted(image.delegation_tokens.values(), key=lambda each: (each.expiration_timestamp, each.token_id))
    return [
        TokenRow(
            each.token_id,
            each.owner,
            ", ".join(each.renewers) or "owner only",
            date_of(each.expiration_timestamp),
            date_of(each.max_timestamp),
        )
        for each in tokens[:ROWS_MAX]
    ]


def access_control_view(image: MetadataImage, error: str, given: Mapping[str, str]) -> AccessControlView:
    """Return the whole page."""
    acls = acls_of(image, AclFilter())
    return AccessControlView(
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


def access_control_page(
    request: Request, error: str = "", status: int = 200, given: Mapping[str, str] = NOTHING_GIVEN
) -> Response:
    """Return the page; `error` and `given` after one of its forms was refused."""
    view = access_control_view(services_of(request).cluster.image, error, given)
    return render(request, "access_control.html", status, page=page_of(request, TITLE, "/rights"), view=view)


@router.get("/rights")
async def access_control(request: Request, _caller: PastAdmin) -> Response:
    """Return the page."""
    return access_control_page(request)
