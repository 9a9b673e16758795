"""InitProducerId for idempotent producers.

Transactions are not served in this version: FindCoordinator for a transactional id and InitProducerId with one answer UNSUPPORTED_VERSION,
transactional batches INVALID_TXN_STATE, and none of the transaction APIs is advertised.

Source: TransactionCoordinator.handleInitProducerId, Kafka 4.3.1.
"""

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kraft_core.server.network.client_connection import Request


class ProducerIdHandler:
    """Answers InitProducerId: always a new id with epoch 0, also when a producer names the one it had (KIP-360 allows either)."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def handle(self, body: InitProducerIdRequest, request: Request) -> None:
        """Answer at once or when the controller has given a block of ids.

        Errors: INVALID_REQUEST for an empty transactional id,
        UNSUPPORTED_VERSION for any other, COORDINATOR_LOAD_IN_PROGRESS while no ids are to be had.
        """
        if body.transactional_id is not None:
            code = ErrorCode.UNSUPPORTED_VERSION if body.transactional_id else ErrorCode.INVALID_REQUEST
            request.respond(InitProducerIdResponse(error_code=code, producer_epoch=-1))
            return
        self._context.spawn(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            producer_id = await self._context.producer_ids.generate()
        except KafkaError as error:
            request.respond(InitProducerIdResponse(error_code=error.code, producer_epoch=-1))
            return
        request.respond(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
