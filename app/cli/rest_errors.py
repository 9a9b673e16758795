"""Answers over REST as the results of admin operations."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from conclave.client.errors import ApiError
from kraft_core.clients.admin.admin_call import Results
from kraft_core.protocol.errors import ErrorCode, KafkaError

K = TypeVar("K")
V = TypeVar("V")
_ABOUT_THE_KEY: Final = {
    400: ErrorCode.INVALID_REQUEST,
    404: ErrorCode.RESOURCE_NOT_FOUND,
    409: ErrorCode.INVALID_REQUEST,
    422: ErrorCode.INVALID_REQUEST,
}
"""Errors of answers that have none of Kafka's, by status."""
AT_ONCE: Final = 8
"""Requests under way at a time."""


def kafka_error(error: ApiError) -> KafkaError:
    """Return Kafka's error of an answer. Raises the answer's when it is not about what was asked for."""
    if error.kafka_error is not None:
        return KafkaError(error.kafka_error, error.detail)
    if error.status in _ABOUT_THE_KEY:
        return KafkaError(_ABOUT_THE_KEY[error.status], error.detail)
    raise error


async def each_of(keys: Iterable[K], work: Callable[[K], Awaitable[V]]) -> Results[K, V]:
    """Run `work` for each key, a few at a time. Raises ConclaveError for what is no error of Kafka's."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(key: K) -> V | KafkaError:
        async with slots:
            try:
                return await work(key)
            except KafkaError as error:
                return error
            except ApiError as error:
                return kafka_error(error)

    listed = list(keys)
    return Results(zip(listed, await asyncio.gather(*map(one, listed)), strict=True))


def refusal(kafka_error_name: str | None, message: str | None) -> KafkaError | None:
    """Return the error of one item, None for success."""
    return None if kafka_error_name is None else KafkaError(ErrorCode[kafka_error_name], message or "")
