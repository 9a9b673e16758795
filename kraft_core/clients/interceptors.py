"""What the interceptors of a producer and those of a consumer have in common: order, and that failures are only logged.

Source: ProducerInterceptors, ConsumerInterceptors, Kafka 4.3.1.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)


class Closeable(Protocol):
    """An interceptor of either kind."""

    def close(self) -> None:
        """Release what the interceptor holds."""


InterceptorT = TypeVar("InterceptorT", bound=Closeable)
T = TypeVar("T")


class Interceptors(Generic[InterceptorT]):
    """The interceptors of one client, called in order."""

    def __init__(self, interceptors: Sequence[InterceptorT]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._interceptors)

    def close(self) -> None:
        """Close all of them."""
        self._call_each(lambda interceptor: interceptor.close())

    def _call_each(self, call: Callable[[InterceptorT], None]) -> None:
        self._pass_through(lambda interceptor, _: call(interceptor), None)

    def _pass_through(self, call: Callable[[InterceptorT, T], T], value: T) -> T:
        """Let each replace the value; one that fails leaves it as it is."""
        for interceptor in self._interceptors:
            try:
                value = call(interceptor, value)
            except Exception:  # the application's code
                log.exception("interceptor_failed", extra={"interceptor": type(interceptor).__name__})
        return value
