"""What a transactional or idempotent producer raises, by what the application has to do.

    KafkaError
    ├── TransactionAbortable   call abort_transaction(), then try again
    ├── TransactionAborted     a record was dropped, because its transaction is being aborted
    ├── ProducerFailed         close this producer; a new one may continue
    │   └── ProducerFenced     a newer producer uses the same transactional.id
    └── IllegalState           the call is not allowed now; nothing was done

`code` is that of the cause, which is in `__cause__`. Source: the exceptions of the same names and
ApplicationRecoverableException, Kafka 4.3.1; KIP-1050.
"""
# ruff: noqa: N818  Kafka's own names of errors have no suffix

from kraft_core.protocol.errors import ErrorCode, KafkaError


class TransactionAbortable(KafkaError):
    """The transaction cannot be committed any more. Abort it; the producer stays usable."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"The transaction failed and must be aborted: {cause.message}")
        self.__cause__ = cause


class TransactionAborted(KafkaError):
    """The record was not sent, because its transaction is being aborted."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED, "The record was not sent: its transaction is aborted.")


class ProducerFailed(KafkaError):
    """The producer cannot continue. Close it; a new one with the same transactional.id may."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"The producer failed and must be closed: {cause.message}")
        self.__cause__ = cause


class ProducerFenced(ProducerFailed):
    """A newer producer with the same transactional.id has replaced this one, or its transaction timed out."""


class IllegalState(KafkaError):
    """The call does not fit the state of the producer's transaction; nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_TXN_STATE, message)


def fatal_error(cause: KafkaError) -> ProducerFailed:
    """Return what to raise after a fatal error."""
    return (ProducerFenced if cause.code == ErrorCode.PRODUCER_FENCED else ProducerFailed)(cause)
