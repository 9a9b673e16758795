"""One principal of the cluster: its ACLs, quotas, credentials and tokens, and whether it may do something."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.cluster.about import NAME_MAX
from app.cluster.acls import acls_of
from app.cluster.cluster import Cluster
from app.cluster.static_configs import HIDDEN
from app.http.errors import BadRequestError
from app.pages.access_control import (
    ROWS_MAX,
    AclRow,
    QuotaRow,
    ScramRow,
    TokenRow,
    acl_row,
    quota_rows,
    scram_rows,
    token_rows,
    visible,
)
from app.pages.frame import page_of, render
from app.services import PastAdmin, services_of
from app.texts import joined, phrase, sentences
from kraft_core.image.acls_image import AclFilter
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.standard_authorizer import Decision, StandardAuthorizer, parse_principal, parse_super_users
from kraft_core.protocol.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    ResourceType,
)

router = APIRouter(include_in_schema=False, prefix="/rights/principal")

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
QUESTION: Final = ("operation", "resource_type", "resource_name", "host")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a principal may do something, and why."""

    allowed: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalView:
    """Model of principal.html. `asked` is the question, `verdict` its answer, None without one or if it is `wrong`."""

    name: str
    user: str
    is_super_user: str
    acls: Sequence[AclRow]
    acls_total: int
    quotas: Sequence[QuotaRow]
    credentials: Sequence[ScramRow]
    tokens: Sequence[TokenRow]
    operations: Sequence[str]
    resource_types: Sequence[str]
    asked: Mapping[str, str]
    verdict: Verdict | None
    wrong: str


@dataclass(frozen=True, slots=True)
class KnownSettings:
    """The settings of the brokers' authorizer, None where no broker tells them, as Apache's never does."""

    super_users: frozenset[str] | None
    allow_everyone: bool | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> "KnownSettings":
        """Return what the static configs of a broker say."""
        users, everyone = (configs.get(name, HIDDEN) for name in (SUPER_USERS, ALLOW_EVERYONE))
        try:
            super_users = None if users == HIDDEN else parse_super_users(users)
        except ValueError:
            super_users = None
        return cls(super_users, None if everyone == HIDDEN else everyone.lower() == "true")

    def decide(self, image: MetadataImage, principal: str, asked: Mapping[str, str]) -> Verdict:
        """Return what the authorizer would answer. Raises KeyError for unknown words."""
        kind, operation = ResourceType[asked["resource_type"]], AclOperation[asked["operation"]]
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else asked["resource_name"]
        given = (image.acls, principal, asked["host"] or WILDCARD, operation, kind, name)
        found = StandardAuthorizer(self.super_users or frozenset(), bool(self.allow_everyone)).authorize(*given)
        reason = _reason(found, principal)
        if found.allowed:
            return Verdict(True, reason)
        doubts = self._doubts(principal, StandardAuthorizer(frozenset(), True).authorize(*given))
        return Verdict(False, sentences([reason, *doubts]))

    def _doubts(self, principal: str, if_everyone: Decision) -> list[str]:
        """Return what could make a refusal wrong."""
        found: list[str] = []
        if self.super_users is None:
            text = phrase("No broker reports super.users; if %(name)s is one of them, it may.", name=principal)
            found.append(text)
        if self.allow_everyone is None and if_everyone.rule == "DefaultAllow":
            text = phrase("No ACL names this resource; with allow.everyone.if.no.acl.found everybody may.")
            found.append(text)
        return found


def _reason(found: Decision, principal: str) -> str:
    match found.rule:
        case "SuperUser":
            return phrase("Yes: %(name)s is a super user.", name=principal)
        case "DefaultAllow":
            return phrase("Yes: no ACL names this resource, and allow.everyone.if.no.acl.found is set.")
        case "DefaultDeny":
            return phrase("No: no ACL allows it.")
        case rule:
            assert not isinstance(rule, str)
            text = acl_row(rule).text
            return phrase("Yes: %(acl)s.", acl=text) if found.allowed else phrase("No: %(acl)s.", acl=text)


@router.get("")
async def principal(
    request: Request,
    _caller: PastAdmin,
    name: Annotated[str, Query(max_length=NAME_MAX)],
    operation: Annotated[str, Query(max_length=50)] = "",
    resource_type: Annotated[str, Query(max_length=50)] = "TOPIC",
    resource_name: Annotated[str, Query(max_length=NAME_MAX)] = "",
    host: Annotated[str, Query(max_length=NAME_MAX)] = "",
) -> Response:
    """Return the page, with the answer to a question if there is one."""
    try:
        kind, user = parse_principal(name)
    except ValueError:
        text = phrase("Bad Request: name must be TYPE:NAME, as in User:alice (was %(name)s).", name=f"{name!r}")
        raise BadRequestError(text) from None
    asked = dict(zip(QUESTION, (operation, resource_type, resource_name.strip(), host.strip()), strict=True))
    view = _view(services_of(request).cluster, name, user if kind == "User" else "", asked)
    return render(request, "principal.html", page=page_of(request, visible(name), "/rights"), view=view)


def _view(cluster: Cluster, name: str, user: str, asked: Mapping[str, str]) -> PrincipalView:
    image, settings = cluster.image, KnownSettings.of(cluster.static_configs.of_any())
    acls = [acl for each in (name, WILDCARD_PRINCIPAL) for acl in acls_of(image, AclFilter(principal=each))]
    acls = list(dict.fromkeys(acls))
    quotas = [each for each in image.client_quotas.items() if dict(each[0]).get("user", "") in {user, None}]
    wrong = _wrong(asked)
    is_asked = bool(asked["operation"]) and not wrong
    return PrincipalView(
        name=name,
        user=user,
        is_super_user=_super_user_text(settings, name),
        acls=[acl_row(acl) for acl in acls[:ROWS_MAX]],
        acls_total=len(acls),
        quotas=quota_rows(quotas) if user else [],
        credentials=[row for row in scram_rows(image) if row.name == user] if user else [],
        tokens=token_rows(
            each for each in image.delegation_tokens.values() if name in {each.owner, each.requester, *each.renewers}
        ),
        operations=sorted({each.name for words in SUPPORTED_OPERATIONS.values() for each in words}),
        resource_types=[each.name for each in SUPPORTED_OPERATIONS],
        asked=asked,
        verdict=settings.decide(image, name, asked) if is_asked else None,
        wrong=wrong,
    )


def _wrong(asked: Mapping[str, str]) -> str:
    """Return what is wrong with a question, "" if nothing is, or if there is none."""
    if not asked["operation"]:
        return ""
    known = {each.name: words for each, words in SUPPORTED_OPERATIONS.items()}
    words = [each.name for each in known.get(asked["resource_type"], ())]
    if not words:
        return phrase("The resource type must be one of %(known)s.", known=", ".join(known))
    if asked["operation"] not in words:
        return phrase(
            "A resource of type %(type)s has the operations %(known)s.",
            type=asked["resource_type"],
            known=joined(", ", words),
        )
    if not asked["resource_name"] and asked["resource_type"] != ResourceType.CLUSTER.name:
        return phrase("Name the resource.")
    return ""


def _super_user_text(settings: KnownSettings, name: str) -> str:
    if settings.super_users is None:
        return phrase("unknown, since no broker reports super.users")
    return phrase("yes") if name in settings.super_users else phrase("no")
