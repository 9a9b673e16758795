"""Allocation of producer id blocks to brokers (KIP-730). Source: ProducerIdControlManager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft_core.controller.brokers.cluster_control_manager import check_broker_epoch
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraft_core.protocol.metadata_records import ProducerIdsRecord

if TYPE_CHECKING:
    from kraft_core.image.metadata_image import MetadataImage

BLOCK_SIZE: Final = 1000
_MAX_INT64: Final = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate the next block of 1000 producer ids to a broker; the first block starts at 0.

    Raises KafkaError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR when the ids are exhausted.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = max(image.producer_ids, 0)
    if first > _MAX_INT64 - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return ControllerResult([record], response)
