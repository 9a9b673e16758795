"""Changes of selected rows: the rows ticked in a form, a preview with every item, and a result for each.

A table has a check box in each row, which belongs to a form with the buttons (`_selection.html`). What the preview
lists is what is changed: the confirmation carries the items, not the filter that found them. Items succeed and fail
individually, and each is audited as if it had been changed alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Request
from fastapi.responses import Response

from app.actions.each import ITEMS_MAX, for_each
from app.http.errors import FORM_REFUSED, NotFoundError, UnprocessableError
from app.pages.confirm import ConfirmView, preview_or_apply
from app.pages.frame import REFUSALS, number, page_of, refusal, render
from app.security.guard import FORM_FIELDS_MAX

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

    def chosen(self, noun: str, matching: Sequence[str]) -> list[str]:
        """Return the selected items, sorted and each once; `matching` are at most ITEMS_MAX + 1 that match the filter.

        Raises UnprocessableError without any, and for more than ITEMS_MAX.
        """
        found = sorted(set(matching if self.is_all else self.items))
        if not found:
            raise UnprocessableError(f"Nothing is selected: tick at least one {noun}. Nothing has changed.")
        if len(found) > ITEMS_MAX:
            count = f"More than {number(ITEMS_MAX)}" if self.is_all else number(len(found))
            raise UnprocessableError(
                f"{count} {noun}s are selected; at most {number(ITEMS_MAX)} can be changed at once. "
                "Narrow the search. Nothing has changed."
            )
        return found


def selection_view(given: Ticked, path: str, back: str, action: str, title: str, button: str = "Delete") -> ConfirmView:
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

    noun: str
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


def in_count(items: Sequence[object], noun: str) -> str:
    """Return a count in words that can be typed: 12 topics."""
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


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
        left_out = [(False, f"{change.name(item)}: {made.text}") for item, made in found if isinstance(made, Refused)]
        count = in_count(lines, change.noun)
        note = f"{in_count(left_out, change.noun)} left out: see the preconditions that are not met."
        return replace(
            view,
            button=f"{view.button} {count}",
            changes=[line.row for line in lines],
            checks=left_out,
            consequences=[*view.consequences, *([note] if left_out else [])],
            fields=[*view.fields, ("filter", given.filter), *(("item", line.value) for line in lines)],
            type_name=count if view.dangerous and lines else "",
            verdict="Nothing has changed yet.",
            error="" if lines else f"None of the selected {change.noun}s can be changed.",
        )

    async def apply() -> Response:
        made = await each(items, change.apply)
        rows = [
            Result(change.name(item), change.url(item), not isinstance(done, Refused), text_of(done))
            for item, done in zip(items, made, strict=True)
        ]
        return _results(request, view, given, items, rows, change.noun)

    typed, phrase = given.fields.get("typed", "").strip(), in_count(items, change.noun)
    if given.is_confirmed and view.dangerous and typed != phrase:
        error = f"'{typed[:249]}' is not '{phrase}'. Nothing has changed."
        return await preview_or_apply(request, await dry_run(), confirmed=False, apply=apply, error=error)
    return await preview_or_apply(request, view, confirmed=given.is_confirmed, apply=apply, dry_run=dry_run)


def text_of(done: str | Refused) -> str:
    """Return the result of one item in words."""
    return done.text if isinstance(done, Refused) else done


def _results(
    request: Request, view: ConfirmView, given: Ticked, items: Sequence[str], rows: Sequence[Result], noun: str
) -> Response:
    failed = [item for item, row in zip(items, rows, strict=True) if not row.is_done]
    shown = ResultsView(
        selection=f"select-{noun}s",
        back=view.back,
        back_url=view.back_url,
        action=view.action,
        summary=f"{in_count(items, noun)}: {len(items) - len(failed)} done, {len(failed)} failed",
        rows=sorted(rows, key=lambda row: row.is_done),
        failed=len(failed),
        fields=[*view.fields, ("filter", given.filter), *(("item", item) for item in failed)],
    )
    return render(
        request, "selection_results.html", page=page_of(request, f"{view.title}: results", view.active), view=shown
    )
