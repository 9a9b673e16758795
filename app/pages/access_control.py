"""The pages of the cluster's own access control, as tabs: ACLs, SCRAM users, client quotas and delegation tokens."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.acl_presets import PRESETS
from app.cluster.acls import acls_of, words_of
from app.pages.config_values import BYTES, in_words
from app.pages.frame import page_items, page_of, refusal, render, rows_on_page, whole_number
from app.services import PastAdmin, services_of
from app.texts import joined, phrase
from kraft_core.clients.admin.quotas import ClientQuotaEntity
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import DelegationToken, MetadataImage
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_MECHANISMS_BY_TYPE
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType, acl_words
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/rights")

TITLE: Final = phrase("Access control")
ROWS_MAX: Final = 1_000
ACLS_ON_PAGE: Final = 100
DEFAULT_ITERATIONS: Final = 8192
QUOTA_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
BYTE_RATE: Final = "_byte_rate"
ENTITY_TYPES: Final = ("user", "client-id", "ip")
NOTHING_GIVEN: Final[Mapping[str, str]] = MappingProxyType({})
YEAR_10000_MS: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class AclRow:
    """One ACL in Kafka's words; `fields` identify it in a form, `item` in a selection."""

    resource: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str
    fields: Sequence[tuple[str, str]]

    @property
    def item(self) -> str:
        """The fields in one text."""
        return urlencode(self.fields)

    @property
    def text(self) -> str:
        """The ACL in one sentence."""
        return phrase(
            "%(permission)s %(operation)s on %(resource)s (%(pattern)s) to %(principal)s from %(host)s",
            permission=self.permission,
            operation=self.operation,
            resource=visible(self.resource),
            pattern=self.pattern,
            principal=visible(self.principal),
            host=visible(self.host),
        )


@dataclass(frozen=True, slots=True)
class ScramRow:
    """One SCRAM credential."""

    name: str
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota; `words` is the value with a unit, `fields` identify it in a form, `principal` is "" but for a user."""

    entity: str
    key: str
    value: float
    words: str
    fields: Sequence[tuple[str, str]]
    principal: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One delegation token, without its HMAC."""

    token_id: str
    owner: str
    renewers: str
    expires_at: dt.datetime | None
    max_expiry: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """What the tabs share: the `error` of a form that was refused, and what was `given` in it."""

    error: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsView(FormView):
    """Model of acls.html: a page of the ACLs whose principal or resource contains `search`, and the words of its forms.

    `refused` is the form that was refused, "application" or "acl".
    """

    search: str
    rows: Sequence[AclRow]
    matching: int
    total: int
    page: int
    pages: int
    presets: Sequence[str]
    resource_types: Sequence[str]
    pattern_types: Sequence[str]
    operations: Sequence[str]
    permissions: Sequence[str]
    refused: str = ""

    @property
    def page_query(self) -> str:
        """The query for another page of the same list, to be completed with page=N."""
        return f"{urlencode({'q': self.search})}&" if self.search else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramView(FormView):
    """Model of scram.html."""

    rows: Sequence[ScramRow]
    mechanisms: Sequence[str]
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasView(FormView):
    """Model of quotas.html."""

    rows: Sequence[QuotaRow]
    entity_types: Sequence[str]
    quota_keys: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensView(FormView):
    """Model of delegation_tokens.html."""

    rows: Sequence[TokenRow]
    total: int


def acl_row(acl: StandardAcl) -> AclRow:
    """Return an ACL in words."""
    words = words_of(acl)
    return AclRow(
        f"{words['resource_type'].lower()} {acl.resource_name}",
        words["pattern_type"].lower(),
        acl.principal,
        acl.host,
        words["operation"],
        words["permission"],
        tuple(words.items()),
    )


def visible(name: str) -> str:
    """Return a name in a sentence: line breaks and what reverses the direction of text are shown as escapes."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def entity_text(entity: ClientQuotaEntity) -> str:
    """Return the entity of a quota in words: `user alice, client-id (default)`."""
    return joined(
        ", ",
        [phrase("%(kind)s (default)", kind=kind) if name is None else f"{kind} {name}" for kind, name in entity],
    )


def quota_rows(given: Iterable[tuple[ClientQuotaEntity, Mapping[str, float]]]) -> list[QuotaRow]:
    """Return quotas, by entity and key."""
    rows = []
    for entity, quotas in given:
        fields = [
            each for kind, name in entity for each in ((kind, name or ""), (f"{kind}-default", "" if name else "yes"))
        ]
        user = dict(entity).get("user")
        principal = f"User:{user}" if user else ""
        rows += [
            QuotaRow(entity_text(entity), key, value, value_words(key, value), [*fields, ("key", key)], principal)
            for key, value in quotas.items()
        ]
    return sorted(rows, key=lambda row: (row.entity, row.key))


def value_words(key: str, value: float) -> str:
    """Return the value of a quota with its unit, as 10 MiB; "" where that says no more than the number."""
    is_bytes = key.endswith(BYTE_RATE) and value.is_integer()
    return in_words(str(int(value)), BYTES) if is_bytes else ""


def date_of(timestamp_ms: int) -> dt.datetime | None:
    """Return a timestamp as a datetime, None outside the years 1970 to 9999."""
    return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC) if 0 <= timestamp_ms < YEAR_10000_MS else None


def token_rows(given: Iterable[DelegationToken]) -> list[TokenRow]:
    """Return at most ROWS_MAX delegation tokens, the next to expire first."""
    tokens = sorted(given, key=lambda each: (each.expiration_timestamp, each.token_id))
    return [
        TokenRow(
            each.token_id,
            each.owner,
            ", ".join(each.renewers) or phrase("owner only"),
            date_of(each.expiration_timestamp),
            date_of(each.max_timestamp),
        )
        for each in tokens[:ROWS_MAX]
    ]


def scram_rows(image: MetadataImage) -> list[ScramRow]:
    """Return all SCRAM credentials, by mechanism and name."""
    return [
        ScramRow(name, SCRAM_MECHANISMS_BY_TYPE[kind].name, credential.iterations)
        for kind in sorted(image.scram)
        for name, credential in sorted(image.scram[kind].items())
    ]


def matching_acls(image: MetadataImage, search: str) -> list[StandardAcl]:
    """Return the ACLs whose principal or resource contains a text, in any case."""
    needle = search.strip().lower()
    found = acls_of(image, AclFilter())
    return [acl for acl in found if needle in acl.principal.lower() or needle in acl.resource_name.lower()]


@router.get("")
async def acls(request: Request, _caller: PastAdmin, q: str = "", page: str = "1") -> Response:
    """Return the tab of ACLs."""
    return _acls_page(request, q[:249], page)


def refused_form(request: Request, form: str, refused: Exception, given: Mapping[str, str]) -> Response:
    """Return the tab of ACLs after its form `form` was refused with one of REFUSALS; see AclsView."""
    text, status = refusal(refused)
    if isinstance(refused, KafkaError) and refused.code is ErrorCode.INVALID_REQUEST:
        text = refused.message  # of this process: Kafka's name adds nothing
    return _acls_page(request, "", "1", status, refused=form, error=text, given=given)


def _acls_page(
    request: Request,
    search: str,
    page: str,
    status: int = 200,
    *,
    refused: str = "",
    error: str = "",
    given: Mapping[str, str] = NOTHING_GIVEN,
) -> Response:
    image = services_of(request).cluster.image
    found = matching_acls(image, search)
    wanted = whole_number(page, 1, 10**9) or 1
    shown, number, pages = page_items(found, wanted, rows_on_page(request, ACLS_ON_PAGE))
    view = AclsView(
        search=search,
        rows=[acl_row(acl) for acl in shown],
        matching=len(found),
        total=len(acls_of(image, AclFilter())),
        page=number,
        pages=pages,
        presets=PRESETS,
        resource_types=acl_words(ResourceType),
        pattern_types=acl_words(PatternType),
        operations=acl_words(AclOperation),
        permissions=acl_words(AclPermissionType)[::-1],
        refused=refused,
        error=error,
        given=defaultdict(str, given),
    )
    return render(request, "acls.html", status, page=page_of(request, TITLE, "/rights"), view=view)


@router.get("/scram")
async def scram_users(request: Request, _caller: PastAdmin) -> Response:
    """Return the tab of SCRAM users."""
    return scram_page(request)


def scram_page(
    request: Request, error: str = "", status: int = 200, given: Mapping[str, str] = NOTHING_GIVEN
) -> Response:
    """Return the tab of SCRAM users; `error` and `given` after its form was refused."""
    rows = scram_rows(services_of(request).cluster.image)
    view = ScramView(
        rows=rows, mechanisms=list(SCRAM_MECHANISMS), iterations=DEFAULT_ITERATIONS, error=error, given=given
    )
    return render(request, "scram.html", status, page=page_of(request, TITLE, "/rights"), view=view)


@router.get("/quotas")
async def quotas(request: Request, _caller: PastAdmin) -> Response:
    """Return the tab of client quotas."""
    return quotas_page(request)


def quotas_page(
    request: Request, error: str = "", status: int = 200, given: Mapping[str, str] = NOTHING_GIVEN
) -> Response:
    """Return the tab of client quotas; `error` and `given` after its form was refused."""
    rows = quota_rows(services_of(request).cluster.image.client_quotas.items())
    view = QuotasView(rows=rows, entity_types=ENTITY_TYPES, quota_keys=QUOTA_KEYS, error=error, given=given)
    return render(request, "quotas.html", status, page=page_of(request, TITLE, "/rights"), view=view)


@router.get("/tokens")
async def tokens(request: Request, _caller: PastAdmin) -> Response:
    """Return the tab of delegation tokens."""
    return tokens_page(request)


def tokens_page(
    request: Request, error: str = "", status: int = 200, given: Mapping[str, str] = NOTHING_GIVEN
) -> Response:
    """Return the tab of delegation tokens; `error` and `given` after its form was refused."""
    image = services_of(request).cluster.image
    view = TokensView(
        rows=token_rows(image.delegation_tokens.values()), total=len(image.delegation_tokens), error=error, given=given
    )
    return render(request, "delegation_tokens.html", status, page=page_of(request, TITLE, "/rights"), view=view)
