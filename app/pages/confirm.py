"""The preview of a change, and the only way from it to the change itself."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from fastapi import Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, go_to, page_of, refusal, render, said
from app.services import base_url_of, services_of
from app.texts import phrase

VALIDATED: Final = phrase("Validated by the controller. Nothing has changed yet.")


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the preview for the user to fill in. A password is never sent back to the page."""

    name: str
    label: str
    kind: Literal["password", "numeric", "code"]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmView:
    """Model of confirm.html: what a change does, with the button that makes it.

    `active` is the entry of the navigation, `done_url` the page after the change (`back_url` if empty).
    `changes` are (what, current, new); `checks` are (is met, text). `fields` are posted with the confirmation; `inputs`
    are filled in by the user, and `type_name` must be typed. With an `error`, the button is shown only if there is
    something to fill in.
    """

    title: str
    active: str
    back: str
    back_url: str
    action: str
    button: str
    changes: Sequence[tuple[str, str, str]]
    curl: str
    done_url: str = ""
    command: str = ""
    checks: Sequence[tuple[bool, str]] = ()
    consequences: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()
    inputs: Sequence[Input] = ()
    type_name: str = ""
    dangerous: bool = False
    verdict: str = ""
    error: str = ""

    @property
    def is_offered(self) -> bool:
        """Whether the button is shown."""
        return not self.error or bool(self.inputs or self.type_name)


def confirm_page(request: Request, view: ConfirmView, status: int = 200) -> Response:
    """Return the preview as a page."""
    return render(request, "confirm.html", status, page=page_of(request, view.title, view.active), view=view)


async def preview_or_apply(
    request: Request,
    view: ConfirmView,
    *,
    confirmed: bool,
    apply: Callable[[], Awaitable[Flash | Response]],
    dry_run: Callable[[], Awaitable[object]] | None = None,
    typed: str = "",
    error: str = "",
) -> Response:
    """Return the preview of a change or, if it is confirmed, apply it and return what follows.

    `apply` returns the message for the next page, or that page itself. `dry_run` asks the controller to validate the
    change; it may return a ConfirmView with what it found. An `error` in the form, or a `typed` text that is not the
    view's `type_name`, is shown on the preview, and nothing is sent. What the controller refuses is shown on the
    preview with its own status.
    """
    if confirmed and view.type_name and typed.strip() not in {view.type_name, said(request, view.type_name)}:
        error = phrase(
            "'%(typed)s' is not '%(name)s'. Nothing has changed.", typed=typed.strip()[:249], name=view.type_name
        )
    if error:
        return confirm_page(request, replace(view, error=error), FORM_REFUSED)
    try:
        if confirmed:
            done = await apply()
            return go_to(request, view.done_url or view.back_url, done) if isinstance(done, Flash) else done
        if dry_run is not None:
            found = await dry_run()
            view = found if isinstance(found, ConfirmView) else replace(view, verdict=VALIDATED)
    except REFUSALS as refused:
        text, status = refusal(refused)
        return confirm_page(request, replace(view, error=text), status)
    return confirm_page(request, view)


def curl_line(base_url: str, method: str, path: str, body: object | None = None) -> str:
    """Return a REST call for a shell; a quote in a value stays a quote."""
    text = json.dumps(body).replace("'", "'\\''")
    data = "" if body is None else f" -H \"Content-Type: application/json\" \\\n  -d '{text}'"
    return f'curl -X {method} -H "Authorization: Bearer $CONCLAVE_TOKEN"{data} \\\n  {base_url}/v3/{path}'


def curl(request: Request, method: str, path: str, body: object | None = None) -> str:
    """Return the REST call of a change of users or API tokens."""
    return curl_line(base_url_of(request), method, path, body)


def cluster_curl(request: Request, method: str, path: str, body: object | None = None) -> str:
    """Return the REST call of a change of the cluster."""
    cluster_id = services_of(request).cluster.cluster_id or "CLUSTER_ID"
    return curl(request, method, f"clusters/{cluster_id}/{path}", body)
