"""The import of ACLs from a text, with a preview of what is added and, if wanted, removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.acl_files import ACLS_MAX, Wrong, read_acls
from app.cluster.acls import acls_of, filter_of
from app.http.errors import FORM_REFUSED
from app.pages.access_control import TITLE, acl_row
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_of, render
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.image.acls_image import AclFilter, StandardAcl

router = APIRouter(include_in_schema=False, prefix="/rights/import")

DELETED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class ImportView:
    """Model of acl_import.html. `wrong` is what is wrong with the text that was sent."""

    text: str
    removes: bool
    wrong: Sequence[Wrong]
    most: int = ACLS_MAX


def _form(request: Request, view: ImportView, status: int = 200) -> Response:
    return render(
        request, "acl_import.html", status, page=page_of(request, phrase("Import ACLs"), "/rights"), view=view
    )


@router.get("")
async def import_form(request: Request, _caller: Admin) -> Response:
    """Return the form."""
    return _form(request, ImportView("", False, ()))


@router.post("")
async def import_acls(
    request: Request,
    caller: Admin,
    text: Annotated[str, Form()] = "",
    remove: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the import; with confirmed=yes create and, if wanted, delete ACLs."""
    found = read_acls(text)
    if found.wrong:
        return _form(request, ImportView(text, bool(remove), found.wrong), FORM_REFUSED)
    services, listed = services_of(request), set(found.acls)
    known = services.cluster.image.acls
    new = [acl for acl in found.acls if not known.contains(acl)]
    gone = [acl for acl in acls_of(services.cluster.image, AclFilter()) if acl not in listed] if remove else []
    actions = services.actions.acls

    async def dry_run() -> None:
        await actions.create(caller, found.acls, validate_only=True)

    async def apply() -> Flash:
        if new:
            await actions.create(caller, new)
        for start in range(0, len(gone), DELETED_AT_ONCE):
            await actions.delete(caller, *map(filter_of, gone[start : start + DELETED_AT_ONCE]))
        kept = len(found.acls) - len(new)
        text = phrase(
            "ACLs imported: %(new)s added, %(kept)s existed, %(gone)s deleted.", new=len(new), kept=kept, gone=len(gone)
        )
        return Flash("good", text)

    view = _confirm_view(request, text, found.acls, new, gone, removes=bool(remove))
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run, typed=typed)


def _confirm_view(
    request: Request,
    text: str,
    acls: Sequence[StandardAcl],
    new: Sequence[StandardAcl],
    gone: Sequence[StandardAcl],
    *,
    removes: bool,
) -> ConfirmView:
    rows = {acl: acl_row(acl) for acl in (*acls, *gone)}
    exists, none, deleted = phrase("exists"), phrase("none"), phrase("deleted")
    added = set(new)
    return ConfirmView(
        title=phrase("Import ACLs"),
        active="/rights",
        back=TITLE,
        back_url="/rights",
        action="/rights/import",
        button=phrase("Import"),
        changes=[
            *((rows[acl].text, none, exists) for acl in new),
            *((rows[acl].text, exists, deleted) for acl in gone),
            *((rows[acl].text, exists, exists) for acl in acls if acl not in added),
        ],
        consequences=[
            phrase(
                "%(new)s are added, %(kept)s exist already, %(gone)s are deleted.",
                new=len(new),
                kept=len(acls) - len(new),
                gone=len(gone),
            ),
            phrase("Takes effect at once, on open connections too."),
        ],
        curl=cluster_curl(request, "POST", "acls:batch", {"data": [dict(rows[acl].fields) for acl in new]}),
        fields=[("text", text), ("remove", "yes" if removes else "")],
        type_name=str(len(gone)) if gone else "",
        dangerous=bool(gone),
    )
