"""The probabilities of small faults, each asked for at one kind of event. All are 0 until the scenario sets them."""

from dataclasses import dataclass, fields


@dataclass
class Disorder:
    """Each field is the probability that one event goes wrong."""

    refuse: float = 0.0  # a connection is refused
    hang: float = 0.0  # a connection is never opened, without an error
    stall: float = 0.0  # a connection carries nothing from here on, without an error
    cut_request: float = 0.0  # a connection ends within a request
    lose_answer: float = 0.0  # a connection ends after the request was handled, before the answer
    cut_answer: float = 0.0  # a connection ends within an answer
    split: float = 0.0  # bytes arrive in pieces
    spike: float = 0.0  # bytes arrive late
    ghost: float = 0.0  # events of a connection arrive after its end
    slow: float = 0.0  # a broker takes long for a request
    throttle: float = 0.0  # a broker throttles the client
    refuse_before: float = 0.0  # a retriable error of a partition or a coordinator, with nothing done
    refuse_after: float = 0.0  # a retriable error of a produce request whose batch was written
    lose_session: float = 0.0  # a broker forgets a fetch session
    lag: float = 0.0  # the replication of a batch takes long
    stale: float = 0.0  # a broker's view of the metadata lags behind

    def heal(self) -> None:
        """End all faults."""
        for field in fields(self):
            setattr(self, field.name, 0.0)


KINDS = tuple(field.name for field in fields(Disorder))
