"""Deletion of selected ACLs."""

from dataclasses import replace
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions.each import ITEMS_MAX
from app.cluster.acls import acl_of, filter_of
from app.pages.access_control import TITLE, acl_row, matching_acls
from app.pages.selection import (
    Line,
    SelectionChange,
    TickedDep,
    each,
    preview_or_apply_each,
    selection_view,
)
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.image.acls_image import StandardAcl
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/selected-acls")


def _acl(item: str) -> StandardAcl:
    """Return the ACL of an item. Raises KafkaError INVALID_REQUEST."""
    return acl_of(dict(parse_qsl(item, keep_blank_values=True)))


def _name(item: str) -> str:
    try:
        return acl_row(_acl(item)).text
    except KafkaError:
        return item[:249]


@router.post("/delete")
async def delete(request: Request, caller: Admin, given: TickedDep) -> Response:
    """Preview which ACLs are deleted; with confirmed=yes and their number typed delete them."""
    services = services_of(request)
    image, actions = services.cluster.image, services.actions.acls
    found = matching_acls(image, given.query.get("q", ""))[: ITEMS_MAX + 1] if given.is_all else []
    items = given.chosen("ACL", [acl_row(acl).item for acl in found])

    async def preview(item: str) -> Line:
        acl = _acl(item)
        if not (await actions.delete(caller, filter_of(acl), validate_only=True))[1]:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, phrase("The ACL no longer exists."))
        return Line((_name(item), phrase("exists"), phrase("deleted")), item)

    async def apply(item: str) -> str:
        offset, deleted = await actions.delete(caller, filter_of(_acl(item)))
        if not deleted:
            return phrase("The ACL no longer exists.")
        return phrase("Deleted at offset %(offset)s.", offset=offset)

    view = replace(
        selection_view(given, "/rights", TITLE, "/selected-acls/delete", phrase("Delete ACLs")),
        consequences=[phrase("Takes effect at once, on open connections too.")],
        dangerous=True,
    )
    change = SelectionChange(
        noun="ACL", name=_name, url=lambda _: "", preview=lambda asked: each(asked, preview), apply=apply
    )
    return await preview_or_apply_each(request, view, given, items, change)
