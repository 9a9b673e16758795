"""The error of replay: a record contradicts the records before it."""


class ReplayError(Exception):
    """A record cannot be applied: unknown topic, partition, broker or epoch, or an unsupported feature level.

    The reader must stop instead of skipping the record: later records would be applied to a wrong state.
    Source: QuorumController, where the fatal fault handler ends the process.
    """
