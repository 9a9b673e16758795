"""A deleted topic: what it was, and creating it again as it was defined, with a preview."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.cluster.cluster import Cluster
from app.cluster.topic_table import replication_factor
from app.http.errors import NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, counted, refusal
from app.pages.topics import TopicWish, create_body
from app.security.roles import Role
from app.services import TopicEditor, services_of
from app.texts import phrase
from kraft_core.configs.config_resource import TOPIC
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.protocol.acl import PatternType, ResourceType

router = APIRouter(include_in_schema=False)

OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Definition:
    """A topic as it was when the change at `deleted_at` deleted it.

    `acls` are those that named it then and do not exist now.
    """

    wish: TopicWish
    deleted_at: int
    acls: list[StandardAcl]


async def definition_of(cluster: Cluster, name: str, deleted_at: int) -> Definition:
    """Return the last definition of a deleted topic. Raises NotFoundError when that change did not delete it."""
    change = await cluster.archive.change_at(deleted_at)
    topic = change.before.topics.topic(name) if change is not None else None
    if change is None or topic is None or topic.id in change.after.topics.by_id:
        raise NotFoundError(
            phrase(
                "Topic '%(name)s' was not deleted at offset %(offset)s, or that is no longer kept.",
                name=name[:249],
                offset=deleted_at,
            )
        )
    named = AclFilter(resource_type=ResourceType.TOPIC, resource_name=name, pattern_type=PatternType.LITERAL)
    lost = [acl for acl in change.before.acls.matching(named) if not cluster.image.acls.contains(acl)]
    configs: dict[str, str | None] = dict(change.before.configs.of(TOPIC, name).items())
    factor = replication_factor(topic.partitions[0])
    wish = TopicWish(name, len(topic.partitions), factor, dict(sorted(configs.items())))
    return Definition(wish, change.offset, sorted(set(lost), key=str))


def _view(request: Request, found: Definition, *, with_acls: bool) -> ConfirmView:
    wish, title = found.wish, phrase("Create %(topic)s again", topic=found.wish.name)
    acls: list[tuple[str, str, str]] = [
        (phrase("%(principal)s, as at the deletion", principal=acl.principal), phrase("none"), str(acl))
        for acl in found.acls
        if with_acls
    ]
    consequences = [
        phrase("The topic is empty and has a new id; the controller places its replicas; the records are lost.")
    ]
    if found.acls and not with_acls:
        lost = counted(len(found.acls), "ACL")
        consequences.append(phrase("Only an administrator can restore the %(acls)s that named it.", acls=lost))
    path = f"/topics/{quote(wish.name, safe='')}"
    return ConfirmView(
        title=title,
        active="/topics",
        back=phrase("Topics"),
        back_url="/topics",
        action=f"{path}/create-again",
        button=phrase("Create topic"),
        done_url=path,
        changes=[
            (phrase("Topic"), phrase("none"), wish.name),
            (phrase("Partitions"), "0", str(wish.partitions)),
            (phrase("Replication factor"), "", str(wish.replication_factor)),
            *(
                (phrase("Config %(name)s", name=name), phrase("default"), str(value))
                for name, value in wish.configs.items()
            ),
            *acls,
        ],
        consequences=consequences,
        fields=[("deleted_at", str(found.deleted_at))],
        curl=cluster_curl(request, "POST", "topics", create_body(wish)),
    )


async def _create(request: Request, caller: Caller, found: Definition, *, with_acls: bool) -> Flash:
    actions, wish = services_of(request).actions, found.wish
    made = await actions.topics.create(
        caller,
        wish.name,
        partitions_count=wish.partitions,
        replication_factor=wish.replication_factor,
        configs=wish.configs,
    )
    said = {"topic": wish.name, "offset": made.offset}
    if not found.acls or not with_acls:
        return Flash("good", phrase("Topic %(topic)s created again at offset %(offset)s.", **said))
    try:
        await actions.acls.create(caller, found.acls)
    except REFUSALS as refused:
        why = refusal(refused)[0]
        text = phrase("Topic %(topic)s created again at offset %(offset)s, but not its ACLs: %(why)s", why=why, **said)
        return Flash("bad", text)
    acls = counted(len(found.acls), "ACL")
    return Flash(
        "good", phrase("Topic %(topic)s created again at offset %(offset)s, with %(acls)s.", acls=acls, **said)
    )


async def _preview(request: Request, caller: Caller, name: str, deleted_at: int, *, confirmed: bool) -> Response:
    services = services_of(request)
    found = await definition_of(services.cluster, name, deleted_at)
    with_acls = caller.principal.may(Role.ADMIN, "admin")
    wish = found.wish

    async def dry_run() -> object:
        return await services.actions.topics.create(
            caller,
            name,
            partitions_count=wish.partitions,
            replication_factor=wish.replication_factor,
            configs=wish.configs,
            validate_only=True,
        )

    async def apply() -> Flash:
        return await _create(request, caller, found, with_acls=with_acls)

    view = _view(request, found, with_acls=with_acls)
    return await preview_or_apply(request, view, confirmed=confirmed, apply=apply, dry_run=dry_run)


@router.get("/topics/{name}/create-again")
async def create_again_form(
    request: Request, caller: TopicEditor, name: str, deleted_at: Annotated[int, Query(ge=0, le=OFFSET_MAX)]
) -> Response:
    """Return the preview."""
    return await _preview(request, caller, name, deleted_at, confirmed=False)


@router.post("/topics/{name}/create-again")
async def create_again(
    request: Request,
    caller: TopicEditor,
    name: str,
    deleted_at: Annotated[int, Form(ge=0, le=OFFSET_MAX)],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Create the topic, and for an administrator the ACLs that named it; without confirmed=yes preview it."""
    return await _preview(request, caller, name, deleted_at, confirmed=bool(confirmed))
