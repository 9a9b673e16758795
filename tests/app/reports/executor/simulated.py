"""A small cluster that carries out the steps of a plan as Kafka's controller does, on an image of its own."""

import datetime as dt
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import msgspec
from rpds import HashTrieMap

from app.cluster.log_dirs import LogDirs
from app.cluster.partitions import Partition
from app.reports.executor.machine import carried_out, decide
from app.reports.executor.plan import (
    FINAL_STATES,
    Alter,
    Cordon,
    Elect,
    Execution,
    Place,
    PlanAgain,
    Reassign,
    Row,
    Step,
    Unregister,
)
from app.reports.executor.throttles import CORDONED
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, PartitionRegistration
from kraft_core.image.topics_image import TopicImage
from kraft_core.image.trie_items import values_of
from kraft_core.protocol.uuids import uuid_to_text
from tests.app.reports.clusters import directory
from tests.app.reports.executor.disks import PATHS, Disks

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def with_partition(image: MetadataImage, topic: TopicImage, index: int, now: PartitionRegistration) -> MetadataImage:
    """Return the image with one partition replaced, one offset later."""
    changed = msgspec.structs.replace(
        topic, partitions=topic.partitions.insert(index, now), brokers=topic.brokers | set(now.replicas)
    )
    topics = msgspec.structs.replace(image.topics, by_id=image.topics.by_id.insert(topic.id, changed))
    return msgspec.structs.replace(image, topics=topics, offset=image.offset + 1)


def rows_of(
    image: MetadataImage,
    proposed: Mapping[Partition, tuple[int, ...]],
    log_dirs: Mapping[Partition, tuple[str, ...]] | None = None,
) -> dict[Partition, Row]:
    """Return the rows of a plan for partitions that exist. All replicas are in the first directory."""
    rows = {}
    for (name, index), replicas in proposed.items():
        topic = image.topics.topic(name)
        assert topic is not None
        original = topic.partitions[index].replicas
        paths = (log_dirs or {}).get((name, index), ())
        rows[name, index] = Row(
            topic=name,
            topic_id=uuid_to_text(topic.id),
            partition=index,
            original=original,
            proposed=replicas,
            log_dirs=paths,
            original_log_dirs=(PATHS[0],) * len(original) if paths else (),
        )
    return rows


@dataclass
class Simulated:
    """The cluster. `most_adding` is the largest number of replicas that a broker has ever received at once."""

    image: MetadataImage
    most_adding: int = 0
    refused: dict[Partition, str] = field(default_factory=dict)
    disks: Disks = field(default_factory=Disks)

    def partition(self, topic: str, index: int) -> PartitionRegistration:
        found = self.image.topics.topic(topic)
        assert found is not None
        return found.partitions[index]

    def put(self, topic: str, index: int, **changes: object) -> None:
        """Change a partition."""
        found = self.image.topics.topic(topic)
        assert found is not None
        if "replicas" in changes:
            changes["directories"] = tuple(directory(each) for each in cast("tuple[int, ...]", changes["replicas"]))
        now = msgspec.structs.replace(found.partitions[index], **changes)
        self.image = with_partition(self.image, found, index, now)

    def put_broker(self, broker_id: int, **changes: object) -> None:
        now = msgspec.structs.replace(self.image.cluster.brokers[broker_id], **changes)
        brokers: HashTrieMap[int, BrokerRegistration] = self.image.cluster.brokers.insert(broker_id, now)
        cluster = msgspec.structs.replace(self.image.cluster, brokers=brokers)
        self.image = msgspec.structs.replace(self.image, cluster=cluster, offset=self.image.offset + 1)

    def config(self, kind: int, name: str, config: str) -> str | None:
        return self.image.configs.of(kind, name).get(config)

    def put_config(self, kind: int, name: str, config: str, value: str | None) -> None:
        held = self.image.configs.of(kind, name)
        held = held.discard(config) if value is None else held.insert(config, value)
        configs = msgspec.structs.replace(
            self.image.configs, by_resource=self.image.configs.by_resource.insert((kind, name), held)
        )
        self.image = msgspec.structs.replace(self.image, configs=configs, offset=self.image.offset + 1)
        if config == CORDONED:
            broker = self.image.cluster.brokers[int(name)]
            self.put_broker(int(name), cordoned_directories=broker.directories if value == "*" else ())
            self.disks.cordoned[int(name)] = PATHS if value == "*" else tuple((value or "").split(","))

    def carry_out(self, step: Step) -> tuple[dict[Partition, str], dict[tuple[int, str], str]]:
        """Carry a step out and return the refused partitions and resources."""
        match step:
            case Alter(changes):
                for (kind, name), values in changes.items():
                    for config, value in values.items():
                        self.put_config(kind, name, config, value)
            case Cordon(broker_id, value):
                self.put_config(BROKER, str(broker_id), CORDONED, value)
            case Place(by_broker):
                return self._place(by_broker), {}
            case Reassign(wanted, log_dirs):
                self._place(log_dirs)
                return {key: why for key, ids in wanted.items() if (why := self._reassign(key, ids))}, {}
            case Elect(partitions):
                for topic, index in partitions:
                    now = self.partition(topic, index)
                    self.put(topic, index, leader=now.replicas[0])
            case Unregister(broker_id):
                cluster = msgspec.structs.replace(
                    self.image.cluster, brokers=self.image.cluster.brokers.remove(broker_id)
                )
                self.image = msgspec.structs.replace(self.image, cluster=cluster, offset=self.image.offset + 1)
            case PlanAgain():
                pass
        return {}, {}

    def _place(self, by_broker: Mapping[int, Mapping[Partition, str]]) -> dict[Partition, str]:
        refused: dict[Partition, str] = {}
        for broker_id, paths in by_broker.items():
            refused |= self.disks.move(broker_id, paths, self.held(broker_id))
        return refused

    def held(self, broker_id: int) -> list[Partition]:
        """Return the partitions of which a broker has a replica."""
        return [
            (topic.name, index)
            for topic in values_of(self.image.topics.by_id)
            for index, each in topic.sorted_partitions()
            if broker_id in each.replicas
        ]

    def answers(self) -> dict[int, LogDirs]:
        """Return what the brokers that are up say of their log directories now."""
        return {
            each.id: self.disks.answer(each.id, self.held(each.id), NOW + dt.timedelta(seconds=1))
            for each in values_of(self.image.cluster.brokers)
            if not each.fenced
        }

    def _reassign(self, key: Partition, wanted: tuple[int, ...] | None) -> str | None:
        if key in self.refused and wanted is not None:
            return self.refused[key]
        now = self.partition(*key)
        if wanted is None:
            if not now.is_reassigning:
                return "No partition reassignment is in progress."
            left = tuple(each for each in now.replicas if each not in now.adding_replicas)
            isr = tuple(each for each in now.isr if each in left)
            self.put(*key, replicas=left, isr=isr, adding_replicas=(), removing_replicas=(), leader=self._led(now, isr))
            return None
        before = tuple(each for each in now.replicas if each not in now.adding_replicas)
        adding = tuple(each for each in wanted if each not in before)
        removing = tuple(each for each in now.replicas if each not in wanted)
        dropped = tuple(each for each in removing if each in now.adding_replicas)
        replicas = (*wanted, *(each for each in removing if each not in dropped))
        isr = tuple(each for each in now.isr if each in replicas)
        kept = tuple(each for each in removing if each not in dropped)
        self.put(*key, replicas=replicas, isr=isr, adding_replicas=adding, removing_replicas=kept)
        self._complete(key)
        self._count()
        return None

    @staticmethod
    def _led(now: PartitionRegistration, isr: tuple[int, ...]) -> int:
        return now.leader if now.leader in isr else (isr[0] if isr else -1)

    def _complete(self, key: Partition) -> None:
        now = self.partition(*key)
        if now.is_reassigning and set(now.adding_replicas) <= set(now.isr):
            replicas = tuple(each for each in now.replicas if each not in now.removing_replicas)
            isr = tuple(each for each in now.isr if each in replicas)
            if not isr:
                return
            self.put(
                *key, replicas=replicas, isr=isr, adding_replicas=(), removing_replicas=(), leader=self._led(now, isr)
            )

    def _count(self) -> None:
        load: dict[int, int] = {}
        for topic in self.image.topics.by_id.values():
            for each in topic.partitions.values():
                for broker in set(each.adding_replicas) - set(each.isr):
                    load[broker] = load.get(broker, 0) + 1
        self.most_adding = max([self.most_adding, *load.values()])

    def moving(self) -> list[Partition]:
        """Return the partitions that are being reassigned."""
        return sorted(
            (topic.name, index)
            for topic in self.image.topics.by_id.values()
            for index, each in topic.partitions.items()
            if each.is_reassigning
        )

    def advance(self, choose: Callable[[Partition], bool] = lambda _: True) -> None:
        """Let one new replica of each chosen moving partition join the ISR, if its broker is up."""
        self.disks.advance(choose)
        for key in self.moving():
            now = self.partition(*key)
            behind = [each for each in now.adding_replicas if each not in now.isr]
            live = [each for each in behind if not self.image.cluster.brokers[each].fenced]
            if live and choose(key):
                self.put(*key, isr=(*now.isr, live[0]))
                self._complete(key)


class Driver:
    """Drives a plan on the simulated cluster. `stored` is what SQL holds: a crash loses everything else."""

    def __init__(self, cluster: Simulated, stored: Execution) -> None:
        self.cluster = cluster
        self.stored = stored
        self.steps: list[Step] = []

    @property
    def is_done(self) -> bool:
        return self.stored.plan.state in FINAL_STATES

    def tick(self, crash: str | None = None, under_min: Iterable[Partition] = ()) -> None:
        """Run one tick; `crash` names the instruction before which the process ends: store, step or result."""
        decision = decide(self.stored, self.cluster.image, NOW, frozenset(under_min), self.cluster.answers())
        if crash == "store":
            return
        self.stored = self.stored.after(decision)
        if crash == "step" or decision.step is None:
            return
        self.steps.append(decision.step)
        failures, resources = self.cluster.carry_out(decision.step)
        if crash != "result":
            self.stored = self.stored.after(carried_out(self.stored, decision.step, failures, resources))

    def run(self, rng: random.Random | None = None, crashes: float = 0.0, ticks: int = 2_000) -> None:
        """Tick until the plan has ended, with random crashes and random progress."""
        for _ in range(ticks):
            if self.is_done:
                return
            crash = rng.choice(["store", "step", "result"]) if rng is not None and rng.random() < crashes else None
            self.tick(crash)
            self.cluster.advance() if rng is None else self.cluster.advance(lambda _: rng.random() < 0.5)
        raise AssertionError(f"not ended: {self.stored.plan}, {self.stored.rows.values()}")
