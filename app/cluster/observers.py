"""Observers of the metadata log: those that the leader reports, and registered nodes that do not fetch."""

from dataclasses import dataclass
from typing import Literal

from app.cluster.quorum import Quorum, Replica
from kraft_core.image.metadata_image import MetadataImage

ObserverKind = Literal["BROKER", "CONTROLLER", "UNKNOWN"]


@dataclass(frozen=True, slots=True)
class Observer:
    """One observer. `replica` is None when it is registered but has not fetched from the leader for five minutes.

    `kind` is its registration's; UNKNOWN is not registered. Readers without a node id, such as a web process, are not
    listed, since a leader does not track them. `is_fenced` is for brokers.
    """

    id: int
    kind: ObserverKind
    replica: Replica | None
    is_fenced: bool


def observers_of(quorum: Quorum, image: MetadataImage) -> list[Observer]:
    """Return all observers by id. Empty while the leader does not answer."""
    if not quorum.is_live:
        return []
    brokers, controllers = image.cluster.brokers, image.cluster.controllers
    voters = {voter.id for voter in quorum.voters}
    fetching = {observer.id for observer in quorum.observers}
    silent = sorted(({*brokers.keys(), *controllers.keys()}) - voters - fetching)

    def observer(node_id: int, replica: Replica | None) -> Observer:
        kind: ObserverKind = "CONTROLLER" if node_id in controllers else "UNKNOWN"
        broker = brokers.get(node_id)
        return Observer(
            node_id, "BROKER" if broker is not None else kind, replica, broker is not None and broker.fenced
        )

    found = [observer(each.id, each) for each in quorum.observers]
    return sorted([*found, *(observer(each, None) for each in silent)], key=lambda each: each.id)
