"""Transactional producers: applications that write and commit or abort, are killed, replaced and fenced.

Every record's value is "transactional id:number", so the log shows which transaction a visible record belongs to.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kraft_core.broker.coordinator.group_records import OffsetRecord, read_record
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.transaction_errors import ProducerFailed, TransactionAbortable
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from tests.clients.simulator.producer_load import ProducerApp, ProducerChoices, Sent
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.clients.simulator.scenario import Scenario

Script = Generator[Callable[[], bool], None, None]
"""An application: yields what it waits for."""


@dataclass
class Transaction:
    """A transaction of an application. `outcome` is "committed", "aborted", or "unknown" if a commit may have happened.

    `offset` is what it commits for its group, -1 for nothing.
    """

    number: int
    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    outcome: str = "aborted"
    offset: int = -1


@dataclass
class Lineage:
    """All producers with one transactional id, one after the other or at once."""

    transactional_id: str
    transactions: list[Transaction] = field(default_factory=list)
    records: int = 0
    fenced: int = 0

    @property
    def source(self) -> TopicPartition:
        """The partition whose offsets the transactions commit."""
        return TopicPartition("topic-0", 0)


class TransactionalApp(ProducerApp):
    """An application with one transactional producer. Only the newest of a lineage starts again after a failure."""

    def __init__(self, story: "TransactionStory", lineage: Lineage) -> None:
        self.story, self.lineage = story, lineage
        scenario = story.scenario
        choices = replace(
            ProducerChoices.draw(scenario.client_random()), acks=-1, idempotent=True, retries=2**31 - 1, max_in_flight=5
        )
        super().__init__(scenario, len(story.apps), replace(choices, buffer_memory=1 << 25))
        self.has_ended = False
        self._wakes_us = 0
        self._script = self._main()
        self._waits_for: Callable[[], bool] = lambda: True

    def new_manager(self) -> TransactionManager:
        timeout_ms = self.random.choice([400, 3_000, 60_000])
        return TransactionManager(self.network, self.lineage.transactional_id, timeout_ms, retry_backoff_ms=20)

    @property
    def transactions(self) -> TransactionManager:
        """The producer's manager."""
        assert self.manager is not None, "the producer is transactional"
        return self.manager

    # The application

    def begin(self) -> None:
        """Start the application."""
        self.process.after_turn = self._after_turn
        self._advance()

    def _after_turn(self) -> None:
        self._check()
        self._advance()

    def _advance(self) -> None:
        while not self.has_ended and self.process.is_running and self._waits_for():
            try:
                self._waits_for = next(self._script)
            except StopIteration:
                self.has_ended = True
            self.process.wake()

    def _sleep(self, ms: int) -> Script:
        until_us = self.world.now_us + ms * 1000
        self.world.after(ms * 1000, self._advance)
        yield lambda: self.world.now_us >= until_us

    def _await(self, result: TransactionalRequestResult) -> Script:
        """Wait as the front does."""
        yield lambda: result.is_completed
        result.is_acked = True
        if result.error is not None:
            raise self.transactions.error_for_application(result.error)

    def _main(self) -> Script:
        try:
            yield from self._await(self.transactions.initialize_transactions())
            while self.is_sending:
                yield from self._transaction()
                yield from self._sleep(self.random.choice([0, 5, 60]))
        except ProducerFailed as failed:
            self.lineage.fenced += 1
            self.world.note("producer failed", self.lineage.transactional_id, self.process.id, failed.code.name)
            self.process.kill()
            self.story.failed(self)

    def _transaction(self) -> Script:
        manager = self.transactions
        manager.begin_transaction()
        transaction = Transaction(len(self.lineage.transactions) + 1)
        self.lineage.transactions.append(transaction)
        try:
            for _ in range(self.random.choice([0, 1, 3, 10])):
                self._write(transaction)
                if self.random.random() < 0.3:
                    yield from self._sleep(self.random.choice([1, 20, 200]))
            if self.random.random() < 0.3:
                yield from self._send_offsets(transaction)
            if self.random.random() < 0.7:
                transaction.outcome = "unknown"
                yield from self._await(manager.begin_commit())
                transaction.outcome = "committed"
            else:
                yield from self._await(manager.begin_abort())
        except TransactionAbortable:
            transaction.outcome = "aborted"
            yield from self._await(manager.begin_abort())

    def _write(self, transaction: Transaction) -> None:
        topic = self.random.choice(self.topics)
        known = self.metadata.topics.get(topic)
        if known is None or not known.partitions:
            return
        self.lineage.records += 1
        value = f"{self.lineage.transactional_id}:{self.lineage.records}:".encode()
        index = self.random.randrange(len(known.partitions))
        now_ms = self.process.now_ms
        batch = self.accumulator.append(topic, index, self.process.wall_ms, None, value, (), now_ms)
        assert batch is not None, "the pool is large"
        sent = Sent(self.lineage.records, value, batch.topic_partition, now_ms)
        self._appended(sent, batch.result, batch.record_count - 1)
        transaction.values.append((batch.topic_partition, value))
        self.process.wake()
        self.transactions.maybe_add_partition(batch.topic_partition)

    def _send_offsets(self, transaction: Transaction) -> Script:
        group = ConsumerGroupMetadata(f"group-{self.lineage.transactional_id}")
        transaction.offset = transaction.number
        offsets = {self.lineage.source: OffsetAndMetadata(transaction.number)}
        yield from self._await(self.transactions.send_offsets_to_transaction(offsets, group))

    def is_done(self) -> bool:
        """Whether the application has ended."""
        return self.has_ended or not self.process.is_running


class TransactionStory:
    """One or two transactional ids, whose producers are killed and replaced at random times."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.world, self.random = scenario.world, scenario.random
        self.apps: list[TransactionalApp] = []
        self.newest: dict[str, TransactionalApp] = {}
        self.is_over = False

    def start(self) -> None:
        for number in range(self.random.choice([1, 2])):
            self._start(Lineage(f"tx-{number}"))
        self.world.after(self.random.randint(0, 2 * SECOND_US), self._replace)

    def _start(self, lineage: Lineage) -> None:
        app = TransactionalApp(self, lineage)
        self.apps.append(app)
        self.newest[lineage.transactional_id] = app
        self.world.after(self.random.randint(0, 50_000), app.begin)

    def _replace(self) -> None:
        """Start a second producer with the same id. The first one is killed, or continues until it is fenced."""
        if self.is_over:
            return
        app = self.random.choice(list(self.newest.values()))
        if self.random.random() < 0.5:
            app.process.kill()
        self._start(app.lineage)
        self.world.after(self.random.randint(200_000, 4 * SECOND_US), self._replace)

    def failed(self, app: TransactionalApp) -> None:
        """Start another producer after a fatal error, if the application was not replaced."""
        if self.newest[app.lineage.transactional_id] is not app:
            return
        is_alone = all(each is app or each.lineage is not app.lineage for each in self.apps)
        if is_alone and not self.scenario.settings.faults:
            known = self.scenario.cluster.transactions[app.lineage.transactional_id]
            check(known.has_timed_out, "a producer fails without a cause", app.transactions.last_error)
        if not self.is_over:
            self._start(app.lineage)

    def stop(self) -> None:
        self.world.after(SECOND_US // 2, self._stop)

    def _stop(self) -> None:
        self.is_over = True
        for app in self.apps:
            app.is_sending = False
            app.process.wake()

    def is_done(self) -> bool:
        transactions = self.scenario.cluster.transactions.values()
        return (
            self.is_over
            and all(app.is_done() for app in self.apps)
            and all(each.state in {"Empty", "Complete"} for each in transactions)
        )

    def finish(self) -> None:
        for log in self.scenario.cluster.logs.values():
            check(log.last_stable_offset == log.high_watermark, "a transaction hangs", log.partition, log.producers)
        lineages = {app.lineage.transactional_id: app.lineage for app in self.apps}.values()
        for lineage in lineages:
            self._check(lineage)
        outcomes = [each.outcome for lineage in lineages for each in lineage.transactions]
        self.scenario.report.counts.update(
            transactions_committed=outcomes.count("committed"),
            transactions_aborted=outcomes.count("aborted"),
            transactions_unknown=outcomes.count("unknown"),
            producers_failed=sum(lineage.fenced for lineage in lineages),
        )

    def _check(self, lineage: Lineage) -> None:
        prefix = f"{lineage.transactional_id}:".encode()
        visible: dict[TopicPartition, list[bytes]] = {}
        for partition, log in self.scenario.cluster.logs.items():
            visible[partition] = [
                record.value
                for batch in log.committed_batches()
                if not batch.is_control and not log.is_aborted(batch)
                for record in batch.records()
                if record.value is not None and record.value.startswith(prefix)
            ]
            numbers = [int(value.split(b":")[1]) for value in visible[partition]]
            check(len(numbers) == len(set(numbers)), "a record has two copies", numbers)
            check(numbers == sorted(numbers), "records are out of order", numbers)
        for transaction in lineage.transactions:
            seen = [value for partition, value in transaction.values if value in visible[partition]]
            if transaction.outcome == "committed":
                check(len(seen) == len(transaction.values), "a committed record is missing", transaction, seen)
            elif transaction.outcome == "aborted":
                check(not seen, "an aborted record is visible", transaction, seen)
            else:
                check(len(seen) in {0, len(transaction.values)}, "half a transaction is visible", transaction, seen)
        self._check_offsets(lineage)

    def _check_offsets(self, lineage: Lineage) -> None:
        written = [
            record.value.offset
            for key, value in self.scenario.cluster.group_logs.get(f"group-{lineage.transactional_id}", ())
            if isinstance(record := read_record(key, value), OffsetRecord) and record.value is not None
        ]
        by_outcome = {
            outcome: {each.offset for each in lineage.transactions if each.outcome == outcome and each.offset >= 0}
            for outcome in ("committed", "aborted", "unknown")
        }
        check(by_outcome["committed"] <= set(written), "committed offsets are missing", by_outcome, written)
        check(not by_outcome["aborted"] & set(written), "offsets of an aborted transaction", by_outcome, written)
        check(written == sorted(written), "offsets are out of order", written)
