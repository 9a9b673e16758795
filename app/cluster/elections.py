"""Elections over many partitions: what they would change, by the controllers' own rules on the image."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.dry_run import dry_run_elections
from app.cluster.partitions import Partition, needs_election
from app.cluster.topic_table import TopicTable
from app.texts import phrase
from kraft_core.clients.admin.partitions import ElectionType, elect_leaders_request, election_results
from kraft_core.configs.config_resource import TOPIC
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage
from kraft_core.image.trie_items import values_of

BATCH: Final = 1_000
"""Partitions in one request: the controller writes it as one atomic batch, of 10,000 records at most."""


@dataclass(frozen=True, slots=True)
class Election:
    """The election of one partition. `then`: the new leader, None when there is none, for the reason in `refused`."""

    topic: str
    partition: int
    registration: PartitionRegistration
    then: int | None
    refused: str

    @property
    def key(self) -> Partition:
        """Topic name and partition."""
        return self.topic, self.partition

    @property
    def last_in_sync(self) -> tuple[int, ...]:
        """The replicas that are known to have all records."""
        found = self.registration
        return tuple(sorted({*found.isr, *found.elr, *found.last_known_elr}))


def batches(partitions: Sequence[Partition]) -> Iterator[Sequence[Partition]]:
    """Yield the partitions in requests that leave the controller time for others."""
    for start in range(0, len(partitions), BATCH):
        yield partitions[start : start + BATCH]


def is_long(partitions: Sequence[object]) -> bool:
    """Return whether the election of these partitions needs more than one request."""
    return len(partitions) > BATCH


def partitions_to_elect(
    image: MetadataImage, election: ElectionType, topics: Iterable[TopicImage] | None = None
) -> list[Partition]:
    """Return the partitions (of all topics, or of these) that need the election, by name and number."""
    chosen = sorted(values_of(image.topics.by_id) if topics is None else topics, key=lambda topic: topic.name)
    return [
        (topic.name, number)
        for topic in chosen
        for number, partition in topic.sorted_partitions()
        if needs_election(partition, election)
    ]


def previewed(image: MetadataImage, election: ElectionType, partitions: Sequence[Partition]) -> list[Election]:
    """Return what the election would do to these partitions of the image.

    Partitions in the same state have the same outcome, so the rules run once for each state.
    """
    found: list[tuple[Partition, PartitionRegistration, _State]] = []
    examples: dict[_State, Partition] = {}
    for key in partitions:
        topic = image.topics.topic(key[0])
        registration = None if topic is None else topic.partitions.get(key[1])
        if topic is not None and registration is not None:
            state = _state(image, topic, registration)
            examples.setdefault(state, key)
            found.append((key, registration, state))
    outcomes: dict[Partition, tuple[int | None, str]] = {}
    for some in batches(list(examples.values())):
        outcomes |= _dry_run(image, election, some)
    return [Election(*key, registration, *outcomes[examples[state]]) for key, registration, state in found]


_State = tuple[object, ...]


def _state(image: MetadataImage, topic: TopicImage, partition: PartitionRegistration) -> _State:
    """Return everything on which the outcome of an election depends in one image."""
    first = topic.partitions.get(0)
    return (
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.directories,
        partition.elr,
        partition.last_known_elr,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.leader_recovery_state,
        image.configs.of(TOPIC, topic.name).get("min.insync.replicas"),
        0 if first is None else len(first.replicas),
    )


def _dry_run(
    image: MetadataImage, election: ElectionType, partitions: Sequence[Partition]
) -> dict[Partition, tuple[int | None, str]]:
    """Return the new leader of each partition, or None and the reason why there is none."""
    response, leaders = dry_run_elections(image, elect_leaders_request(election, partitions, 0))
    results = election_results(response)
    found = {}
    for name, index in partitions:
        topic = image.topics.topic(name)
        error = results.get((name, index))  # type: ignore[call-overload]  # a TopicPartition is such a tuple
        then = None if topic is None else leaders.get((topic.id, index))
        refused = "" if then is not None else error.message if error is not None else phrase("Nothing would change.")
        found[name, index] = then, refused
    return found


def leaders_by_broker(
    image: MetadataImage, table: TopicTable, elections: Sequence[Election]
) -> dict[int, tuple[int, int]]:
    """Return the number of partitions that each broker leads before and after the elections."""
    table.refresh(image)
    led = table.totals().leaders_of
    after = Counter(led)
    for each in elections:
        if each.then is not None:
            after[each.then] += 1
            after[each.registration.leader] -= 1
    brokers = sorted({*image.cluster.brokers, *led, *(each.then for each in elections if each.then is not None)})
    return {broker: (led.get(broker, 0), after[broker]) for broker in brokers}
