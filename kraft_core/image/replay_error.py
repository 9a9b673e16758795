"""The one error of replay: the log says something that cannot follow from what it said before."""


class ReplayError(Exception):
    """A record that cannot be applied: unknown topic, partition, broker or epoch, or a level this software has not.

    The reader must stop, not skip: what comes after would be applied to a wrong state. Source: QuorumController, where the
    fatal fault handler ends the process.
    """
