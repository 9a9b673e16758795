"""Transactions and active producers, in the style of REST v3, which lacks them; aborting a transaction that hangs.

Answers are as new as the brokers' answers to this request. A broker that does not answer makes them an error, so that
no program takes a part of the transactions for all.
"""

from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import AfterValidator

from app.cluster.transactions import ListedTransaction
from app.error_responses import NATIVE
from app.rest.paging import NowPageDep
from app.rest.responses import DRY_RUN, answer, no_content, planned, state_name
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.transactions import AbortBody, ProducerDataList, TransactionDataList, TransactionDetailData
from app.rest.view import NowViewDep, View
from app.services import Admin, Reader, ServicesDep
from kraft_core.clients.admin.transactions import ProducerState
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "transactions"], route_class=JsonRoute)

WAIT_SECONDS: Final = 10.0
TransactionalId = Annotated[str, Path(min_length=1), AfterValidator(unquote)]
"""An id may have any characters: its path segment reaches the route encoded (see Negotiation)."""


def _known(number: int) -> int | None:
    return None if number < 0 else number


def transaction_data(view: View, listed: ListedTransaction) -> dict[str, Any]:
    """Return one transactional id of the list."""
    return view.resource(
        "KafkaTransaction",
        ("transactions", listed.transactional_id),
        (("transaction", listed.transactional_id),),
        transactional_id=listed.transactional_id,
        state=state_name(listed.state),
        producer_id=listed.producer_id,
        coordinator=view.related("brokers", listed.coordinator),
    )


async def _listed(view: View) -> list[ListedTransaction]:
    """Return all transactional ids. Raises KafkaError if one of their coordinators does not answer."""
    found = await view.cluster.transactions.list(WAIT_SECONDS, 0.0)
    for broker_id, error in found.errors.items():
        raise KafkaError(error.code, f"Broker {broker_id} has not listed its transactions: {error.message}")
    if found.pending:
        text = f"Broker {found.pending[0]} has not listed its transactions in time."
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
    if found.missing is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Transactions may be missing: {found.missing.text}")
    return list(found.transactions)


@router.get("/transactions", responses={200: {"model": TransactionDataList}})
async def list_transactions(view: NowViewDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the transactional ids."""
    return page.answer(
        "KafkaTransactionList",
        await _listed(view),
        lambda each: each.transactional_id,
        lambda each: transaction_data(view, each),
    )


@router.get("/transactions/{transactional_id}", responses={200: {"model": TransactionDetailData}})
async def get_transaction(transactional_id: TransactionalId, view: NowViewDep, _caller: Reader) -> Response:
    """Describe a transactional id, with the partitions of its open transaction."""
    listed = next((each for each in await _listed(view) if each.transactional_id == transactional_id), None)
    if listed is None:
        raise view.not_found(f"Transactional id {transactional_id}")
    asked = {transactional_id: listed.coordinator}
    found = (await view.cluster.transactions.details(asked, WAIT_SECONDS, 0.0))[transactional_id]
    described = found.get_or_raise(f"transactional id {transactional_id}")
    body = {
        **transaction_data(view, listed),
        "state": state_name(described.state),
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "start_time": _known(described.start_time_ms),
        "partitions": [{"topic_name": topic, "partition_id": index} for topic, index in sorted(described.partitions)],
    }
    return answer(body, view.offset)


def producer_data(view: View, where: TopicPartition, state: ProducerState) -> dict[str, Any]:
    """Return one active producer."""
    return view.resource(
        "KafkaProducer",
        ("topics", where.topic, "partitions", where.partition, "producers"),
        (("topic", where.topic), ("partition", where.partition), ("producer", state.producer_id)),
        topic_name=where.topic,
        partition_id=where.partition,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=_known(state.last_sequence),
        last_timestamp=_known(state.last_timestamp),
        coordinator_epoch=_known(state.coordinator_epoch),
        transaction_start_offset=_known(state.current_transaction_start_offset),
    )


@router.get("/topics/{topic_name}/partitions/{partition_id}/producers", responses={200: {"model": ProducerDataList}})
async def list_producers(
    topic_name: str, partition_id: int, view: NowViewDep, page: NowPageDep, _caller: Reader
) -> Response:
    """List the active producers of a partition, as its leader knows them."""
    view.partition(topic_name, partition_id)
    where = TopicPartition(topic_name, partition_id)
    found = (await view.cluster.transactions.producers([where], WAIT_SECONDS, 0.0))[where]
    return page.answer(
        "KafkaProducerList",
        sorted(found.get_or_raise(f"{topic_name}-{partition_id}")),
        lambda each: each.producer_id,
        lambda each: producer_data(view, where, each),
    )


@router.post("/topics/{topic_name}/partitions/{partition_id}/transactions:abort", status_code=204, responses=DRY_RUN)
async def abort_transaction(
    topic_name: str,
    partition_id: int,
    body: AbortBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Abort a transaction that hangs in one partition (KIP-664): one that its coordinator no longer knows.

    While the producer lives, its transaction would end in this partition and stay open in others. 409 if none begins
    at `start_offset`.
    """
    view.partition(topic_name, partition_id)
    where = TopicPartition(topic_name, partition_id)
    state = await view.cluster.admin.transactions.open_at(where, body.start_offset)
    if validate_only:
        what = f"transaction of producer {state.producer_id}, epoch {state.producer_epoch}"
        before = {"topic_name": topic_name, "partition_id": partition_id, "start_offset": body.start_offset}
        return planned([(what, before, None)])
    await services.actions.transactions.abort(caller, where, state)
    return no_content()
