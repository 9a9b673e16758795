"""The import of ACLs from a text, with a preview of what is added and, if wanted, removed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.acls import ImportedAcl, planned_import
from app.cluster.acl_files import ACLS_MAX, Wrong, read_acls
from app.http.errors import FORM_REFUSED
from app.pages.access_control import TITLE, acl_row
from app.pages.confirm import VALIDATED, ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, number, page_of, refusal, render
from app.services import Admin, services_of
from app.texts import phrase, sentences

router = APIRouter(include_in_schema=False, prefix="/rights/import")


@dataclass(frozen=True, slots=True)
class ImportView:
    """Model of acl_import.html. `wrong` is what is wrong with the text that was sent, `error` why it was refused."""

    text: str
    removes: bool
    wrong: Sequence[Wrong]
    error: str = ""
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
    services, removes = services_of(request), bool(remove)
    actions, planned = services.actions.acls, planned_import(services.cluster.image, found.acls, remove_others=removes)

    try:
        if not confirmed:
            await actions.import_acls(caller, found.acls, remove_others=removes, validate_only=True)
    except REFUSALS as refused:
        error, status = refusal(refused)
        return _form(request, ImportView(text, removes, (), error), status)

    async def apply() -> Flash:
        return _done(await actions.import_acls(caller, found.acls, remove_others=removes))

    view = _confirm_view(request, text, planned, removes=removes)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, typed=typed)


def _done(imported: Sequence[ImportedAcl]) -> Flash:
    refused = [each.made for each in imported if isinstance(each.made, REFUSALS)]
    counts = _counts([each for each in imported if not isinstance(each.made, REFUSALS)])
    text = phrase("ACLs imported: %(new)s added, %(kept)s existed, %(gone)s deleted.", **counts)
    if not refused:
        return Flash("good", text)
    why, _ = refusal(refused[0])
    return Flash("bad", sentences([text, phrase("Not deleted: %(count)s. %(why)s", count=len(refused), why=why)]))


def _counts(imported: Sequence[ImportedAcl]) -> dict[str, str]:
    counts = Counter(each.change for each in imported)
    return {"new": number(counts["CREATE"]), "kept": number(counts["NONE"]), "gone": number(counts["DELETE"])}


def _confirm_view(request: Request, text: str, planned: Sequence[ImportedAcl], *, removes: bool) -> ConfirmView:
    exists, none, deleted = phrase("exists"), phrase("none"), phrase("deleted")
    words = {"CREATE": (none, exists), "DELETE": (exists, deleted), "NONE": (exists, exists)}
    rows = [(each.change, acl_row(each.acl)) for each in planned]
    gone = sum(change == "DELETE" for change, _ in rows)
    listed = [dict(row.fields) for change, row in rows if change != "DELETE"]
    return ConfirmView(
        title=phrase("Import ACLs"),
        active="/rights",
        back=TITLE,
        back_url="/rights",
        action="/rights/import",
        button=phrase("Import"),
        changes=[(row.text, *words[change]) for wanted in words for change, row in rows if change == wanted],
        consequences=[
            phrase("%(new)s to add, %(kept)s exist already, %(gone)s to delete.", **_counts(planned)),
            phrase("Takes effect at once, on open connections too."),
        ],
        curl=cluster_curl(request, "POST", "acls:import", {"data": listed, "remove_others": removes}),
        fields=[("text", text), ("remove", "yes" if removes else "")],
        type_name=str(gone) if gone else "",
        dangerous=bool(gone),
        verdict=VALIDATED,
    )
