"""Partitions: adding them to a topic, reassignments in progress, and cancelling one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.partitions import Outcome, Partition
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, ids_text, page_of, render, whole_number
from app.pages.topic import known_topic
from app.services import Admin, PastReader, TopicEditor, services_of
from app.texts import phrase, sentences
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.trie_items import items_of, values_of

router = APIRouter(include_in_schema=False)

ROWS_MAX: Final = 1_000


@router.post("/topics/{name}/partitions")
async def add_partitions(
    request: Request,
    caller: TopicEditor,
    name: str,
    count: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview more partitions as the controller validates them; with confirmed=yes add them."""
    services = services_of(request)
    now = len(known_topic(services.cluster, name).partitions)
    typed, wanted = count.strip()[:40], whole_number(count, 1, 2**31 - 1)

    async def add(*, validate_only: bool) -> Flash:
        assert wanted is not None, "an error is shown for a count that cannot be read"
        offset = await services.actions.topics.create_partitions(caller, name, wanted, validate_only=validate_only)
        partitions = counted(wanted, "partition")
        text = phrase(
            "Topic %(topic)s has %(partitions)s as of offset %(offset)s.",
            topic=name,
            partitions=partitions,
            offset=offset,
        )
        return Flash("good", text)

    view = ConfirmView(
        title=phrase("Add partitions to %(topic)s", topic=name),
        active="/topics",
        back=name,
        back_url=f"/topics/{name}",
        action=f"/topics/{name}/partitions",
        button=phrase("Add partitions"),
        changes=[(phrase("Partitions"), str(now), str(wanted) if wanted else typed)],
        consequences=[phrase("Keyed records map to other partitions afterwards. Partitions cannot be removed.")],
        curl=cluster_curl(request, "PATCH", f"topics/{name}", {"partitions_count": wanted}),
        fields=[("count", count)],
    )
    return await preview_or_apply(
        request,
        view,
        confirmed=bool(confirmed),
        apply=lambda: add(validate_only=False),
        dry_run=lambda: add(validate_only=True),
        error="" if wanted else phrase("'%(given)s' is not a whole number above %(least)s.", given=typed, least=now),
    )


# reassignments


@dataclass(frozen=True, slots=True)
class ReassignmentRow:
    """One reassignment in progress."""

    topic: str
    index: int
    replicas: str
    adding: str
    removing: str
    caught_up: str


@dataclass(frozen=True, slots=True)
class ReassignmentsView:
    """Model of reassignments.html."""

    rows: Sequence[ReassignmentRow]
    total: int


def reassignment_rows(image: MetadataImage) -> list[ReassignmentRow]:
    """Return the reassignments in progress, by topic and partition."""
    rows = [
        ReassignmentRow(
            topic.name,
            index,
            ids_text(each.replicas),
            ids_text(each.adding_replicas),
            ids_text(each.removing_replicas),
            phrase(
                "%(part)s of %(whole)s",
                part=len(set(each.adding_replicas) & set(each.isr)),
                whole=len(each.adding_replicas),
            ),
        )
        for topic in values_of(image.topics.by_id)
        for index, each in items_of(topic.partitions)
        if each.is_reassigning
    ]
    return sorted(rows, key=lambda row: (row.topic, row.index))


def _cancelled(done: Outcome, wanted: Sequence[Partition]) -> Flash:
    """Return the result of a cancellation, in one line."""
    refused = [f"{topic}-{index}: {error.message}" for (topic, index), error in done.failures.items()]
    numbers = {"count": len(wanted) - len(refused), "partitions": counted(len(wanted), "partition")}
    if done.offset is None:
        result = phrase("Reassignment cancelled for %(count)s of %(partitions)s.", **numbers)
    else:
        result = phrase(
            "Reassignment cancelled for %(count)s of %(partitions)s at offset %(offset)s.",
            **numbers,
            offset=done.offset,
        )
    return Flash("bad" if refused else "good", sentences([result, *refused[:5]]))


@router.get("/reassignments")
async def reassignments(request: Request, _caller: PastReader) -> Response:
    """Return the page."""
    rows = reassignment_rows(services_of(request).cluster.image)
    view = ReassignmentsView(rows[:ROWS_MAX], len(rows))
    return render(request, "reassignments.html", page=page_of(request, phrase("Reassignments"), "/topics"), view=view)


@router.post("/reassignments/cancel")
async def cancel(
    request: Request,
    caller: Admin,
    topic: Annotated[str, Form()],
    index: Annotated[int, Form()],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview to which replicas a partition returns; with confirmed=yes cancel its reassignment."""
    services = services_of(request)
    found = known_topic(services.cluster, topic).partitions.get(index)
    if found is None or not found.is_reassigning:
        text = phrase("%(partition)s is not being reassigned.", partition=f"{topic}-{index}")
        return go_to(request, "/reassignments", Flash("bad", text))

    async def apply() -> Flash:
        done = await services.actions.partitions.alter_reassignments(caller, {(topic, index): None})
        return _cancelled(done, [(topic, index)])

    original = [each for each in found.replicas if each not in found.adding_replicas]
    adding = found.adding_replicas
    body = {"data": [{"topic_name": topic, "partition_id": index}]}
    view = ConfirmView(
        title=phrase("Cancel reassignment"),
        active="/topics",
        back=phrase("Reassignments"),
        back_url="/reassignments",
        action="/reassignments/cancel",
        button=phrase("Cancel reassignment"),
        changes=[(f"{topic}-{index}", ids_text(found.replicas), ids_text(original))],
        consequences=[phrase("The new replicas on brokers %(ids)s are deleted.", ids=ids_text(adding))]
        if adding
        else [],
        curl=cluster_curl(request, "POST", "reassignments:cancel", body),
        fields=[("topic", topic), ("index", str(index))],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
