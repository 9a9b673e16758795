"""The ACLs of an application, from a preset, with a preview."""

import re
from dataclasses import asdict, fields
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.cluster.acl_presets import Application
from app.pages.access_control import TITLE, acl_row, refused_form
from app.pages.confirm import VALIDATED, ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import REFUSALS
from app.services import Admin, services_of
from app.texts import phrase, phrases
from kraft_core.image.acls_image import StandardAcl
from kraft_core.protocol.acl import WILDCARD

router = APIRouter(include_in_schema=False, prefix="/rights/applications")


async def _application(request: Request) -> Application:
    """Return an application from a form. Topics and connectors are separated by spaces, commas or lines."""
    form = await request.form()
    given: dict[str, Any] = {}
    for each in fields(Application):
        text = str(form.get(each.name, "")).strip()
        is_list, is_flag = isinstance(each.default, tuple), isinstance(each.default, bool)
        given[each.name] = _names(text) if is_list else bool(text) if is_flag else text
    return Application(**{**given, "host": given["host"] or WILDCARD})


ApplicationDep = Annotated[Application, Depends(_application)]


def _body(application: Application) -> dict[str, object]:
    """Return the body of the REST call, without what is empty."""
    return {name: value for name, value in asdict(application).items() if value}


def _fields(application: Application) -> dict[str, str]:
    """Return the fields of a form that says the same."""
    return {
        name: "yes" if value is True else " ".join(value) if isinstance(value, tuple) else str(value)
        for name, value in _body(application).items()
    }


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"[^\s,]+", text)))


def _confirm_view(request: Request, application: Application, acls: list[StandardAcl]) -> ConfirmView:
    known = services_of(request).cluster.image.acls
    return ConfirmView(
        title=phrase("Add application"),
        active="/rights",
        back=TITLE,
        back_url="/rights",
        action="/rights/applications",
        button=phrase("Create ACLs"),
        changes=[
            (acl_row(acl).text, phrase("exists") if known.contains(acl) else phrase("none"), phrase("exists"))
            for acl in acls
        ],
        consequences=[phrase("Takes effect at once, on open connections too.")],
        curl=cluster_curl(request, "POST", "acls:application", _body(application)),
        fields=list(_fields(application).items()),
        verdict=VALIDATED,
    )


@router.post("")
async def add_application(
    request: Request, caller: Admin, application: ApplicationDep, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview the ACLs of an application; with confirmed=yes create those that do not exist.

    What is refused before the preview is said above the form, as it was filled in.
    """
    actions = services_of(request).actions.acls
    try:
        acls = application.acls()
        if not confirmed:
            await actions.create(caller, acls, validate_only=True)
    except REFUSALS as refused:
        return refused_form(request, "application", refused, _fields(application))

    async def apply() -> Flash:
        offset = await actions.create(caller, acls)
        text = phrases(
            "%(count)s ACL exists as of offset %(offset)s.",
            "%(count)s ACLs exist as of offset %(offset)s.",
            len(acls),
            offset=offset,
        )
        return Flash("good", text)

    view = _confirm_view(request, application, acls)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
