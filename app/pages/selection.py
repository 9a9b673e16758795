"""Changes of selected rows: the rows ticked in a form, a preview with every item, and a result for each.

A table has a check box in each row, which belongs to a form with the buttons (`_selection.html`). What the preview
lists is what is changed: the confirmation carries the items, not the filter that found them. Items succeed and fail
individually, and each is audited as if it had been changed alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Request
from fastapi.responses import Response

from app.actions.each import ITEMS_MAX, for_each
from app.http.errors import FORM_REFUSED, NotFoundError, UnprocessableError
from app.pages.confirm import ConfirmView, preview_or_apply
from app.pages.frame import REFUSALS, number, page_of, refusal, render, said
from app.security.guard import FORM_FIELDS_MAX
from app.texts import Text, phrase, phrases

Noun = Literal["topic", "group", "ACL"]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Ticked:
    """A form with selected rows: the items, or with `is_all` everything that matches the query `filter`."""

    items: Sequence[str]
    is_all: bool
    filter: str
    fields: Mapping[str, str]

    @property
    def query(self) -> dict[str, str]:
        """The filter of the list, without its page."""
        return {name: value for name, value in parse_qsl(self.filter)[:10] if name != "page"}

    @property
    def is_confirmed(self) -> bool:
        """Whether the preview was confirmed."""
        return bool(self.fields.get("confirmed"))

    def back_url(self, path: str) -> str:
        """Return the address of the list with its filter."""
        return f"{path}?{urlencode(self.query)}" if self.query else path

    def chosen(self, noun: Noun, matching: Sequence[str]) -> list[str]:
        """Return the selected items, sorted and each once; `matching` are at most ITEMS_MAX + 1 that match the filter.

        Raises UnprocessableError without any, and for more than ITEMS_MAX.
        """
        found = sorted(set(matching if self.is_all else self.items))
        if not found:
            text = phrase("Nothing is selected: tick at least one %(thing)s. Nothing has changed.", thing=one(noun))
            raise UnprocessableError(text)
        if len(found) > ITEMS_MAX:
            most = number(ITEMS_MAX)
            text = phrase(
                "%(count)s %(things)s are selected; at most %(most)s can be changed at once. "
                "Narrow the search. Nothing has changed.",
                count=phrase("More than %(count)s", count=most) if self.is_all else number(len(found)),
                things=several(noun),
                most=most,
            )
            raise UnprocessableError(text)
        return found


def selection_view(
    given: Ticked, path: str, back: str, action: str, title: str, button: str = phrase("Delete")
) -> ConfirmView:
    """Return the confirmation of a change of selected rows, whose list `back` is at `path`; it has no changes yet."""
    return ConfirmView(
        title=title,
        active=path,
        back=back,
        back_url=given.back_url(path),
        action=action,
        button=button,
        changes=[],
        curl="",
    )


async def ticked(request: Request) -> Ticked:
    """Return the form of a request."""
    form = await request.form(max_fields=FORM_FIELDS_MAX, max_files=0)
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    fields = {name: value for name, value in texts if name != "item"}
    items = [value for name, value in texts if name == "item"]
    return Ticked(items, bool(fields.get("all")), fields.get("filter", "")[:4_000], fields)


TickedDep = Annotated[Ticked, Depends(ticked)]


@dataclass(frozen=True, slots=True)
class Line:
    """An item of the preview: a row of what changes, and what is posted for it with the confirmation."""

    row: tuple[str, str, str]
    value: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that cannot be changed, and why."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionChange:
    """How the selected items are previewed and changed.

    `name` and `url` return an item in words and its page. `preview` returns a line or the refusal of each item, in
    order; `apply` changes one item and returns what it did.
    """

    noun: Noun
    name: Callable[[str], str]
    url: Callable[[str], str]
    preview: Callable[[Sequence[str]], Awaitable[Sequence[Line | Refused]]]
    apply: Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the result."""

    name: str
    url: str
    is_done: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsView:
    """Model of selection_results.html: `selection` is the form of the table, whose ticks are forgotten.

    `fields` are posted to `action` to try again what failed.
    """

    selection: str
    back: str
    back_url: str
    action: str
    summary: str
    rows: Sequence[Result]
    failed: int
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of selection_input.html; one with `choices` (value, text) is a select."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputView:
    """Model of selection_input.html: what a change of the selected items needs to know before its preview."""

    title: str
    back: str
    back_url: str
    action: str
    summary: str
    inputs: Sequence[Field]
    items: Sequence[str]
    filter: str
    error: str = ""


async def each(items: Sequence[str], make: Callable[[str], Awaitable[Made]]) -> list[Made | Refused]:
    """Return what `make` makes of each item, in order; a refusal costs its item only."""
    made = await for_each(items, make, (NotFoundError, *REFUSALS))
    return [_refused(found) if isinstance(found, Exception) else found for found in made]


def _refused(error: Exception) -> Refused:
    return Refused(error.message if isinstance(error, NotFoundError) else refusal(error)[0])


def one(noun: Noun) -> Text:
    """Return what one item is called."""
    return {"topic": phrase("topic"), "group": phrase("group"), "ACL": phrase("ACL")}[noun]


def several(noun: Noun) -> Text:
    """Return what several items are called."""
    return {"topic": phrase("topics"), "group": phrase("groups"), "ACL": phrase("ACLs")}[noun]


def in_count(items: Sequence[object], noun: Noun) -> Text:
    """Return a count in words that can be typed: 12 topics."""
    count = len(items)
    match noun:
        case "topic":
            return phrases("%(count)s topic", "%(count)s topics", count)
        case "group":
            return phrases("%(count)s group", "%(count)s groups", count)
        case "ACL":
            return phrases("%(count)s ACL", "%(count)s ACLs", count)


def input_page(request: Request, view: InputView, active: str) -> Response:
    """Return the form of a change of several items, with status 422 after an error."""
    status = FORM_REFUSED if view.error else 200
    return render(request, "selection_input.html", status, page=page_of(request, view.title, active), view=view)


async def preview_or_apply_each(
    request: Request, view: ConfirmView, given: Ticked, items: Sequence[str], change: SelectionChange
) -> Response:
    """Return the preview of a change of `items` or, if it is confirmed, make it and return the result of each.

    `view` is completed with the rows. Its button is a verb, such as Delete. A dangerous change requires the number of
    items to be typed. Items that are refused in the preview are left out of the confirmation.
    """

    async def dry_run() -> ConfirmView:
        found = list(zip(items, await change.preview(items), strict=True))
        lines = [made for _, made in found if isinstance(made, Line)]
        left_out = [
            (False, phrase("%(name)s: %(text)s", name=change.name(item), text=made.text))
            for item, made in found
            if isinstance(made, Refused)
        ]
        count = in_count(lines, change.noun)
        note = phrase(
            "%(items)s left out: see the preconditions that are not met.", items=in_count(left_out, change.noun)
        )
        return replace(
            view,
            button=phrase("%(verb)s %(items)s", verb=view.button, items=count),
            changes=[line.row for line in lines],
            checks=left_out,
            consequences=[*view.consequences, *([note] if left_out else [])],
            fields=[*view.fields, ("filter", given.filter), *(("item", line.value) for line in lines)],
            type_name=count if view.dangerous and lines else "",
            verdict=phrase("Nothing has changed yet."),
            error=""
            if lines
            else phrase("None of the selected %(things)s can be changed.", things=several(change.noun)),
        )

    async def apply() -> Response:
        made = await each(items, change.apply)
        rows = [
            Result(change.name(item), change.url(item), not isinstance(done, Refused), text_of(done))
            for item, done in zip(items, made, strict=True)
        ]
        return _results(request, view, given, items, rows, change.noun)

    typed, wanted = given.fields.get("typed", "").strip(), in_count(items, change.noun)
    if given.is_confirmed and view.dangerous and typed not in {wanted, said(request, wanted)}:
        error = phrase("'%(typed)s' is not '%(name)s'. Nothing has changed.", typed=typed[:249], name=wanted)
        return await preview_or_apply(request, await dry_run(), confirmed=False, apply=apply, error=error)
    return await preview_or_apply(request, view, confirmed=given.is_confirmed, apply=apply, dry_run=dry_run)


def text_of(done: str | Refused) -> str:
    """Return the result of one item in words."""
    return done.text if isinstance(done, Refused) else done


def _results(
    request: Request, view: ConfirmView, given: Ticked, items: Sequence[str], rows: Sequence[Result], noun: Noun
) -> Response:
    failed = [item for item, row in zip(items, rows, strict=True) if not row.is_done]
    shown = ResultsView(
        selection=f"select-{noun}s",
        back=view.back,
        back_url=view.back_url,
        action=view.action,
        summary=phrase(
            "%(items)s: %(done)s done, %(failed)s failed",
            items=in_count(items, noun),
            done=len(items) - len(failed),
            failed=len(failed),
        ),
        rows=sorted(rows, key=lambda row: row.is_done),
        failed=len(failed),
        fields=[*view.fields, ("filter", given.filter), *(("item", item) for item in failed)],
    )
    title = phrase("%(title)s: results", title=view.title)
    return render(request, "selection_results.html", page=page_of(request, title, view.active), view=shown)
