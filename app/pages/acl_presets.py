"""The ACLs of an application, from a preset, with a preview."""

import re
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.cluster.acl_presets import Application
from app.pages.access_control import TITLE, acl_row
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.services import Admin, services_of
from app.texts import phrase, phrases
from kraft_core.image.acls_image import StandardAcl

router = APIRouter(include_in_schema=False, prefix="/rights/applications")


class ApplicationForm:
    """An application from a form. Topics are separated by spaces, commas or lines."""

    def __init__(
        self,
        preset: Annotated[str, Form()] = "",
        principal: Annotated[str, Form()] = "",
        host: Annotated[str, Form()] = "*",
        read_topics: Annotated[str, Form()] = "",
        write_topics: Annotated[str, Form()] = "",
        prefixed: Annotated[str, Form()] = "",
        group: Annotated[str, Form()] = "",
        transactional_id: Annotated[str, Form()] = "",
        idempotent: Annotated[str, Form()] = "",
        application_id: Annotated[str, Form()] = "",
        exactly_once: Annotated[str, Form()] = "",
    ) -> None:
        self.application = Application(
            preset=preset,
            principal=principal.strip(),
            host=host.strip() or "*",
            read_topics=_names(read_topics),
            write_topics=_names(write_topics),
            prefixed=bool(prefixed),
            group=group.strip(),
            transactional_id=transactional_id.strip(),
            idempotent=bool(idempotent),
            application_id=application_id.strip(),
            exactly_once=bool(exactly_once),
        )

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields of a form that says the same."""
        found = []
        for name, value in self.body().items():
            text = "yes" if value is True else " ".join(value) if isinstance(value, tuple) else str(value)
            found.append((name, text))
        return found

    def body(self) -> dict[str, object]:
        """Return the body of the REST call, without what is empty."""
        return {name: value for name, value in asdict(self.application).items() if value}


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"[^\s,]+", text)))


def _confirm_view(request: Request, form: ApplicationForm, acls: list[StandardAcl]) -> ConfirmView:
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
        curl=cluster_curl(request, "POST", "acls:application", form.body()),
        fields=form.fields(),
    )


@router.post("")
async def add_application(
    request: Request,
    caller: Admin,
    form: Annotated[ApplicationForm, Depends()],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the ACLs of an application; with confirmed=yes create those that do not exist."""
    actions, acls = services_of(request).actions.acls, form.application.acls()

    async def dry_run() -> None:
        await actions.create(caller, acls, validate_only=True)

    async def apply() -> Flash:
        offset = await actions.create(caller, acls)
        text = phrases(
            "%(count)s ACL exists as of offset %(offset)s.",
            "%(count)s ACLs exist as of offset %(offset)s.",
            len(acls),
            offset=offset,
        )
        return Flash("good", text)

    view = _confirm_view(request, form, acls)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)
