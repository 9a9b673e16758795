"""InitProducerId for idempotent producers.

Transactions are not served in this version: FindCoordinator and InitProducerId with a transactional id are answered
with UNSUPPORTED_VERSION, transactional batches with INVALID_TXN_STATE, and no transaction API is advertised.

Source: TransactionCoordinator.handleInitProducerId, Kafka 4.3.1.
"""

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kraft_core.server.network.request import Request


class ProducerIdHandler:
    """Answers InitProducerId with a new id and epoch 0, even if the producer sends its previous id (see KIP-360)."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def handle(self, body: InitProducerIdRequest, request: Request) -> None:
        """Answer at once, or when the controller has allocated a block of ids.

        Errors: INVALID_REQUEST for an empty transactional id, UNSUPPORTED_VERSION for any other,
        COORDINATOR_LOAD_IN_PROGRESS when the controller allocates no ids.
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
