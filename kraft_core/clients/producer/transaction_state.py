"""The states of a producer's transactions, and which may follow which.

An idempotent producer without transactions uses UNINITIALIZED, INITIALIZING, READY and FATAL_ERROR, and ABORTABLE_ERROR
for a moment when a broker refuses it an id. Source: TransactionManager.State, Kafka 4.3.1, without two-phase commit
(KIP-939).
"""

from enum import Enum
from types import MappingProxyType
from typing import Final

from kraft_core.clients.producer.transaction_errors import IllegalState
from kraft_core.protocol.errors import KafkaError


class State(Enum):
    """Where a producer is in its transaction."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING_TRANSACTION = "committing"
    ABORTING_TRANSACTION = "aborting"
    ABORTABLE_ERROR = "to be aborted after an error"
    FATAL_ERROR = "failed"


NEXT: Final = MappingProxyType(
    {
        State.UNINITIALIZED: {State.INITIALIZING},
        State.INITIALIZING: {State.READY, State.ABORTABLE_ERROR},
        State.READY: {State.UNINITIALIZED, State.IN_TRANSACTION},
        State.IN_TRANSACTION: {State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION, State.ABORTABLE_ERROR},
        State.COMMITTING_TRANSACTION: {State.INITIALIZING, State.READY, State.ABORTABLE_ERROR},
        State.ABORTING_TRANSACTION: {State.INITIALIZING, State.READY},
        State.ABORTABLE_ERROR: {State.UNINITIALIZED, State.ABORTING_TRANSACTION, State.ABORTABLE_ERROR},
        State.FATAL_ERROR: set[State](),
    }
)
"""The states that may follow each; FATAL_ERROR may follow any."""

ERRORS: Final = frozenset({State.ABORTABLE_ERROR, State.FATAL_ERROR})


class TransactionState:
    """The current state; `last_error` is set in the two error states alone."""

    def __init__(self, transactional_id: str | None) -> None:
        self.current = State.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self._name = "" if transactional_id is None else f" with transactional.id '{transactional_id}'"

    def require(self, target: State, operation: str) -> None:
        """Check a step that the application asks for. Raises IllegalState, and changes nothing."""
        if target not in NEXT[self.current]:
            allowed = sorted(state.value for state, next_states in NEXT.items() if target in next_states)
            raise IllegalState(
                f"{operation} is not allowed while the producer{self._name} is {self.current.value}; "
                f"it must be {' or '.join(allowed)}."
            )

    def move(self, target: State, error: KafkaError | None = None) -> None:
        """Move to another state; `error` belongs to the error states.

        A step outside the table is a fault of the client: the producer fails for good, and IllegalState is raised.
        """
        if target is not State.FATAL_ERROR and target not in NEXT[self.current]:
            message = f"The producer{self._name} was {self.current.value} and cannot become {target.value}."
            self.current, self.last_error = State.FATAL_ERROR, IllegalState(message)
            raise self.last_error
        assert (error is not None) == (target in ERRORS), "an error state has an error, and no other has"
        self.current, self.last_error = target, error
