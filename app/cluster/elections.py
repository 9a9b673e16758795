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
    """Return what the election would do to these partitions of the image."""
    found = []
    for some in batches(partitions):
        response, leaders = dry_run_elections(image, elect_leaders_request(election, some, 0))
        results = election_results(response)
        for name, number in some:
            topic = image.topics.topic(name)
            registration = None if topic is None else topic.partitions.get(number)
            if topic is None or registration is None:
                continue
            error = results.get((name, number))  # type: ignore[call-overload]  # a TopicPartition is such a tuple
            then = leaders.get((topic.id, number))
            refused = (
                "" if then is not None else error.message if error is not None else phrase("Nothing would change.")
            )
            found.append(Election(name, number, registration, then, refused))
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
