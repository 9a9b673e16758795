"""Bases of the methods that are made from the OpenAPI document: they send a call in one of two ways."""

from abc import ABC, abstractmethod
from typing import TypeVar

from conclave.client.calls import Call

T = TypeVar("T")


class Methods(ABC):
    """Methods that wait for their answer."""

    @abstractmethod
    def _send(self, call: Call[T]) -> T:
        """Send a call and return its answer. Raises ConclaveError."""


class AsyncMethods(ABC):
    """Methods that are awaited."""

    @abstractmethod
    async def _send(self, call: Call[T]) -> T:
        """Send a call and return its answer. Raises ConclaveError."""
