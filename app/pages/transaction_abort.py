"""Aborting a transaction that hangs in one partition, with a preview."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, confirm_page, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import number
from app.pages.topic import known_topic
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.clients.admin.reset_request import is_index, is_number
from kraft_core.clients.client_metadata import TopicPartition

router = APIRouter(include_in_schema=False)

WARNING: Final = phrase(
    "Only for a transaction that its coordinator no longer knows. While the producer lives, its transaction would end "
    "in this partition and stay open in others."
)


@router.post("/topics/{name}/abort-transaction")
async def abort(
    request: Request,
    caller: Admin,
    name: str,
    partition: Annotated[str, Form()] = "",
    start_offset: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview which transaction is aborted; with confirmed=yes abort it, if it still begins at that offset."""
    services = services_of(request)
    known_topic(services.cluster, name)
    admin = services.cluster.admin.transactions
    view = ConfirmView(
        title=phrase("Abort a transaction of %(topic)s", topic=name),
        active="/topics",
        back=phrase("Producers of %(topic)s", topic=name),
        back_url=f"/topics/{name}/producers",
        action=f"/topics/{name}/abort-transaction",
        button=phrase("Abort transaction"),
        changes=[],
        consequences=[phrase("Its records become invisible to consumers that read committed records."), WARNING],
        curl="",
        command="kafka-transactions.sh --bootstrap-server BROKER:PORT abort "
        f"--topic {name} --partition {partition[:20]} --start-offset {start_offset[:20]}",
        fields=[("partition", partition), ("start_offset", start_offset)],
        dangerous=True,
    )
    if not is_index(partition) or not is_number(start_offset):
        wrong = phrase(
            "'%(partition)s' and '%(offset)s' must be the numbers of a partition and of an offset.",
            partition=partition[:40],
            offset=start_offset[:40],
        )
        return confirm_page(request, replace(view, error=wrong, command=""), FORM_REFUSED)
    where, start = TopicPartition(name, int(partition)), int(start_offset)

    async def dry_run() -> ConfirmView:
        state = await admin.open_at(where, start)
        producer = number(state.producer_id)
        what = phrase("Transaction of producer %(id)s, epoch %(epoch)s", id=producer, epoch=state.producer_epoch)
        since = phrase(
            "open in %(partition)s since offset %(offset)s", partition=f"{name}-{partition}", offset=number(start)
        )
        return replace(view, changes=[(what, since, phrase("aborted"))])

    async def apply() -> Flash:
        state = await admin.open_at(where, start)
        await services.actions.transactions.abort(caller, where, state)
        return Flash(
            "good",
            phrase(
                "The transaction of producer %(id)s in %(partition)s was aborted.",
                id=state.producer_id,
                partition=f"{name}-{partition}",
            ),
        )

    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)
