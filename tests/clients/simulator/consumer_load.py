"""Consumers of a cluster that producers write to: alone with all partitions, or as members of a group that changes."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kraft_core.broker.coordinator.group_records import OffsetRecord, read_record
from kraft_core.clients.client_metadata import TopicPartition
from tests.clients.simulator.consumer_app import STRATEGIES, ConsumerApp, ConsumerChoices
from tests.clients.simulator.consumer_group_apis import PREFIX, group_of, write
from tests.clients.simulator.consumer_groups import SimConsumerGroup
from tests.clients.simulator.group_apis import GROUP
from tests.clients.simulator.log_truth import LogTruth
from tests.clients.simulator.producer_load import ProducerApp
from tests.clients.simulator.transaction_load import TransactionStory
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.clients.simulator.scenario import Scenario


class ConsumerStory:
    """Consumers, and what they must be given."""

    group_id: str | None = None
    is_consumer_protocol = False

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario, self.world, self.cluster = scenario, scenario.world, scenario.cluster
        self.random = random = scenario.random
        self.truths = {partition: LogTruth(log) for partition, log in self.cluster.logs.items()}
        self.is_group = self.group_id is not None
        self.strategy = random.choice(STRATEGIES)
        self.read_committed = random.random() < 0.5
        self.slow_polls = random.choice([0.0, 0.0, 0.01]) if self.is_group else 0.0
        self.slow_listeners = random.choice([0.0, 0.0, 0.3]) if self.is_group else 0.0
        self.static_members = random.choice([0.0, 0.0, 0.5, 1.0]) if self.is_group else 0.0
        if "2.1" in scenario.settings.profiles:  # no JoinGroup with an instance id
            self.static_members = 0.0
        self.instances = 0
        self.apps: list[ConsumerApp] = []
        self.producers: list[ProducerApp] = []
        self.transactions: TransactionStory | None = None
        self.owners: dict[tuple[int, TopicPartition], int | str] = {}
        self.is_over = self.was_stopped = False
        self._committed: dict[TopicPartition, int] = {}
        self._committed_upto = 0
        self.cluster.on_commit = self._on_commit

    def start(self) -> None:
        if self.random.random() < 0.5:
            self.transactions = TransactionStory(self.scenario)
            self.transactions.start()
        else:
            self.producers.append(ProducerApp(self.scenario, 0))
            self.producers[0].begin()
        for _ in range(self.random.choice([1, 2, 3]) if self.is_group else 1):
            self._start_consumer()
        if self.is_group:
            self.world.after(self.random.randint(0, 2 * SECOND_US), self._change_members)

    def _start_consumer(self, instance_id: str | None = None) -> None:
        client_random = self.scenario.client_random()
        drawn = ConsumerChoices.draw(client_random, self.group_id, self.strategy, read_committed=self.read_committed)
        if instance_id is None and self.world.chance(self.static_members):
            self.instances += 1
            instance_id = f"instance-{self.instances}"
        choices = replace(drawn, instance_id=instance_id, is_consumer_protocol=self.is_consumer_protocol)
        app = ConsumerApp(self, len(self.apps), choices)
        self.apps.append(app)
        self.world.after(self.random.randint(0, 300_000), app.begin)

    def running(self) -> list[ConsumerApp]:
        """Return the consumers that are neither killed nor closing."""
        return [app for app in self.apps if app.process.is_running and app.closing is None]

    def _change_members(self) -> None:
        """Start, close or kill a member; one is always left."""
        if self.is_over:
            return
        running = self.running()
        change = self.random.choice(["start", "close", "kill"])
        if change == "start" and len(running) < 4:
            self._start_consumer()
        elif len(running) > 1:
            app = self.random.choice(running)
            if change == "close":
                app.close()
            else:
                app.process.kill()
            if app.choices.instance_id is not None and self.random.random() < 0.7:
                self.replace(app)
        self.world.after(self.random.randint(100_000, 2 * SECOND_US), self._change_members)

    def replace(self, app: ConsumerApp) -> None:
        """Start a static member again, some time after its process has ended."""
        self.world.after(self.random.randint(50_000, 1_500_000), self._replace, app)

    def _replace(self, app: ConsumerApp) -> None:
        if app.process.is_running:
            self.replace(app)
        elif not self.was_stopped:
            self._start_consumer(app.choices.instance_id)

    # Checks

    def check_owner(self, app: ConsumerApp) -> None:
        """Check that no two members own a partition in the same generation."""
        coordinator = app.core.coordinator
        if coordinator is None:
            return
        generation = coordinator.group_metadata().generation_id
        if generation < 0:
            return
        for partition in app.core.subscriptions.assigned_partitions():
            name = app.choices.instance_id or app.id
            owner = self.owners.setdefault((generation, partition), name)
            check(owner == name, "two owners in one generation", generation, partition, owner, name)

    def committed(self, group_id: str, partition: TopicPartition) -> int:
        """Return the committed offset of the group, 0 for none."""
        records = self.cluster.group_logs.get(group_id, [])
        for key, value in records[self._committed_upto :]:
            record = read_record(key, value)
            if isinstance(record, OffsetRecord) and record.value is not None:
                self._committed[TopicPartition(record.topic, record.partition)] = record.value.offset
        self._committed_upto = len(records)
        return self._committed.get(partition, 0)

    def _on_commit(self, process_id: int, partition: TopicPartition, offset: int) -> None:
        for app in self.apps:
            if app.process.id == process_id:
                app.check_commit(partition, offset)

    # The end

    def stop(self) -> None:
        self.world.after(SECOND_US // 2, self._stop)

    def _stop(self) -> None:
        self.is_over = True
        for producer in self.producers:
            producer.stop()
        if self.transactions is not None:
            self.transactions._stop()

    def is_done(self) -> bool:
        if not self.is_over or not all(producer.is_done() for producer in self.producers):
            return False
        if self.transactions is not None and not self.transactions.is_done():
            return False
        if not self.was_stopped:
            is_replicated = all(log.high_watermark == log.end for log in self.cluster.logs.values())
            if not is_replicated or not self._has_all():
                return False
            self.was_stopped = True
            for app in self.apps:
                app.close()
        return not any(app.process.is_running for app in self.apps)

    def _has_all(self) -> bool:
        if not self.is_group:
            return all(app.has_all() for app in self.apps)
        for partition, truth in self.truths.items():
            given: set[int] = set().union(*(app.given.get(partition, set()) for app in self.apps))
            if not given.issuperset(truth.due(0, truth.log.end, read_committed=self.read_committed)):
                return False
        return True

    def finish(self) -> None:
        for producer in self.producers:
            producer.finish()
        if self.transactions is not None:
            self.transactions.finish()
        prefix = self.group_id or "alone"
        self.scenario.report.counts.update(
            {
                f"{prefix}_records_given": sum(app.records for app in self.apps),
                f"{prefix}_polls": sum(app.polls for app in self.apps),
                f"{prefix}_follower_reads": self.cluster.follower_reads,
            }
        )
        if self.is_group:
            self.scenario.report.counts.update(
                rebalances=sum(app.rebalances for app in self.apps), commits=sum(app.commits for app in self.apps)
            )


class GroupStory(ConsumerStory):
    """The same with the members of one classic group."""

    group_id = "group"


class ConsumerProtocolStory(ConsumerStory):
    """The same with the members of one group of the consumer protocol."""

    group_id = PREFIX
    is_consumer_protocol = True

    def __init__(self, scenario: "Scenario") -> None:
        super().__init__(scenario)
        self.truth = SimConsumerGroup(self.cluster.logs, self.cluster.names_by_id)
        self._applied = 0
        self.cluster.on_group_change = self.check_owners

    def _change_members(self) -> None:
        """Fence a member now and then, as an operator can."""
        super()._change_members()
        self._apply()
        if not self.is_over and self.truth.seats and self.random.random() < 0.1:
            broker = self.cluster.brokers[self.cluster.coordinator(GROUP, PREFIX)]
            if broker.is_up:
                group = group_of(broker, PREFIX)
                if group.seats:  # not all have expired
                    group.fence(self.random.choice(sorted(group.seats)))
                    write(broker, PREFIX, group)

    def _apply(self) -> None:
        records = self.cluster.group_logs.get(PREFIX, [])
        for key, value in records[self._applied :]:
            self.truth.apply(key, value)
        self._applied = len(records)

    def check_owner(self, app: ConsumerApp) -> None:
        self.check_owners()

    def check_owners(self) -> None:
        """Check that no two members on which the coordinator counts use the same partition now.

        A member uses what it is assigned, and what its listener has not given up yet.
        """
        self._apply()
        owners: dict[TopicPartition, int] = {}
        for app in self.apps:
            assert app.core.coordinator is not None, "a member has a coordinator"
            member = app.core.coordinator.group_metadata()
            seat = self.truth.seats.get(member.member_id)
            is_known = seat is not None and member.generation_id in {seat.epoch, seat.previous_epoch}
            if not is_known or not app.process.is_running:
                continue
            for partition in app.next_offset.keys() | app.core.subscriptions.assigned_partitions():
                owner = owners.setdefault(partition, app.id)
                check(owner == app.id, "two members own a partition", member.generation_id, partition, owner, app.id)
