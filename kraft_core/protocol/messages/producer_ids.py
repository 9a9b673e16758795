"""Producer ids: blocks for brokers, single ids for producers (KIP-730, 98).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class AllocateProducerIdsRequest(Message):
    """Ask the controller for a block of producer ids; apiKey 67, v0. Source: AllocateProducerIdsRequest.json."""

    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1


class AllocateProducerIdsResponse(Message):
    """A block of producer ids; apiKey 67, v0. Source: AllocateProducerIdsResponse.json."""

    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    producer_id_start: Annotated[int, wire("int64")] = 0
    producer_id_len: Annotated[int, wire("int32")] = 0


class InitProducerIdRequest(Message):
    """Ask for a producer id and epoch; apiKey 22, v0-5. Source: InitProducerIdRequest.json."""

    API_KEY = 22
    VERSIONS = (0, 5)
    FLEXIBLE = 2

    transactional_id: Annotated[str | None, wire("string", nullable_since=0)] = ""
    transaction_timeout_ms: Annotated[int, wire("int32")] = 0
    producer_id: Annotated[int, wire("int64", since=3)] = -1
    producer_epoch: Annotated[int, wire("int16", since=3)] = -1


class InitProducerIdResponse(Message):
    """A producer id and epoch; apiKey 22, v0-5. Source: InitProducerIdResponse.json."""

    API_KEY = 22
    VERSIONS = (0, 5)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    producer_id: Annotated[int, wire("int64")] = -1
    producer_epoch: Annotated[int, wire("int16")] = 0
