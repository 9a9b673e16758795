"""ACLs of the cluster: creating and deleting one, with a preview."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.cluster.acls import acl_of, filter_of
from app.pages.access_control import TITLE, acl_row, refused_form
from app.pages.confirm import VALIDATED, ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import REFUSALS
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.image.acls_image import StandardAcl

router = APIRouter(include_in_schema=False, prefix="/rights/acls")


class AclForm:
    """The seven fields of an ACL, from a form."""

    def __init__(
        self,
        resource_type: Annotated[str, Form()] = "",
        resource_name: Annotated[str, Form()] = "",
        pattern_type: Annotated[str, Form()] = "LITERAL",
        principal: Annotated[str, Form()] = "",
        host: Annotated[str, Form()] = "*",
        operation: Annotated[str, Form()] = "",
        permission: Annotated[str, Form()] = "ALLOW",
    ) -> None:
        self.fields: Sequence[tuple[str, str]] = (
            ("resource_type", resource_type),
            ("resource_name", resource_name),
            ("pattern_type", pattern_type),
            ("principal", principal),
            ("host", host or "*"),
            ("operation", operation),
            ("permission", permission),
        )

    def strip(self) -> None:
        """Remove spaces around what was typed; an ACL that exists may have them."""
        self.fields = tuple((name, value.strip()) for name, value in self.fields)

    def acl(self) -> StandardAcl:
        """Return the ACL. Raises KafkaError INVALID_REQUEST."""
        return acl_of(dict(self.fields))


FormDep = Annotated[AclForm, Depends()]


def _confirm_view(request: Request, form: AclForm, acl: StandardAcl, *, is_new: bool) -> ConfirmView:
    row = acl_row(acl)
    exists = services_of(request).cluster.image.acls.contains(acl)
    given = dict(form.fields)
    return ConfirmView(
        title=phrase("Create ACL") if is_new else phrase("Delete ACL"),
        active="/rights",
        back=TITLE,
        back_url="/rights",
        action=f"/rights/acls{'' if is_new else '/delete'}",
        button=phrase("Create ACL") if is_new else phrase("Delete ACL"),
        changes=[
            (
                row.text,
                phrase("exists") if exists else phrase("none"),
                phrase("exists") if is_new else phrase("deleted"),
            )
        ],
        consequences=[
            phrase("Takes effect at once, on open connections too."),
            *([phrase("A DENY overrides every ALLOW.")] if row.permission == "DENY" and is_new else []),
        ],
        curl=cluster_curl(request, "POST", "acls", given)
        if is_new
        else cluster_curl(request, "DELETE", f"acls?{urlencode(given)}"),
        fields=form.fields,
        dangerous=not is_new,
        verdict=VALIDATED if is_new else "",
    )


@router.post("")
async def create_acl(
    request: Request, caller: Admin, form: FormDep, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview a new ACL; with confirmed=yes create it.

    What is refused before the preview is said above the form, as it was filled in.
    """
    form.strip()
    try:
        acl = form.acl()
        if not confirmed:
            await services_of(request).actions.acls.create(caller, [acl], validate_only=True)
    except REFUSALS as refused:
        return refused_form(request, "acl", refused, dict(form.fields))

    async def apply() -> Flash:
        offset = await services_of(request).actions.acls.create(caller, [acl])
        return Flash("good", phrase("ACL created at offset %(offset)s.", offset=offset))

    view = _confirm_view(request, form, acl, is_new=True)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)


@router.post("/delete")
async def delete_acl(
    request: Request, caller: Admin, form: FormDep, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview the deletion of an ACL; with confirmed=yes delete it."""
    acl = form.acl()

    async def apply() -> Flash:
        offset, deleted = await services_of(request).actions.acls.delete(caller, filter_of(acl))
        done = phrase("ACL deleted at offset %(offset)s.", offset=offset)
        return Flash("good", done if deleted else phrase("The ACL no longer exists."))

    view = _confirm_view(request, form, acl, is_new=False)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
