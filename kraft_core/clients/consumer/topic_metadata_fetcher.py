"""Asks for topics and their partitions apart from the consumer's subscription.

Source: TopicMetadataFetcher of Kafka 4.3.1.
"""

from kraft_core.clients.client_metadata import PartitionInfo, TopicPartition, partition_info
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NodeRequest
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut
from kraft_core.protocol.messages import (
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    MetadataResponseMetadataResponseTopic,
)

Topics = dict[str, dict[TopicPartition, PartitionInfo]]


class _Question:
    """A question for all topics, or for one: until its answer, a final error, or the deadline."""

    def __init__(self, topic: str | None, deadline_ms: float, now_ms: float) -> None:
        self.topic = topic
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.pending: Pending[Topics] = Pending()
        self.asked: dict[str, None] = {}  # the addresses, in order
        self.is_asked = False
        self.not_before_ms: float = 0
        self.failures = 0
        self.last_error: KafkaError | None = None


class TopicMetadataFetcher:
    """The questions of one consumer. Its requests carry a callable `(request, now_ms)` as context."""

    def __init__(self, network: NetworkClient, backoff: ExponentialBackoff, *, allow_auto_topic_creation: bool) -> None:
        self._network = network
        self._backoff = backoff
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._questions: list[_Question] = []

    def ask(self, topic: str | None, deadline_ms: float, now_ms: float) -> Pending[Topics]:
        """Ask for one topic, or with None for all topics that this client may see.

        An unknown topic has no entry. Fails with the error of the topic, or RequestTimedOut at the deadline.
        """
        question = _Question(topic, deadline_ms, now_ms)
        self._questions.append(question)
        return question.pending

    def step(self, now_ms: float) -> None:
        """Send what is due, and end questions that are too late. Raises LoginFailed."""
        for question in list(self._questions):
            if question.pending.is_done:
                self._questions.remove(question)
            elif now_ms >= question.deadline_ms:
                question.pending.fail(self._timed_out(question))
                self._questions.remove(question)
            elif not question.is_asked and now_ms >= question.not_before_ms:
                self._send(question, now_ms)

    def next_deadline_ms(self) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        return min(
            (each.deadline_ms if each.is_asked else max(each.not_before_ms, 1) for each in self._questions),
            default=None,
        )

    def _send(self, question: _Question, now_ms: float) -> None:
        node = self._network.least_loaded_node(now_ms)
        if node is not None:
            question.asked[f"{node.host}:{node.port}"] = None
        if node is None or not self._network.is_ready(node.id, now_ms):
            question.not_before_ms = now_ms + self._backoff.after(0)
            return
        topic = question.topic
        message = MetadataRequest(
            topics=None if topic is None else (MetadataRequestMetadataRequestTopic(name=topic),),
            allow_auto_topic_creation=self._allow_auto_topic_creation and topic is not None,
        )
        question.is_asked = True

        def completed(request: NodeRequest, now_ms: float) -> None:
            self._answered(question, request, now_ms)

        self._network.send(NodeRequest(node.id, message, completed), now_ms)

    def _timed_out(self, question: _Question) -> RequestTimedOut:
        what = "all topics" if question.topic is None else f"topic {question.topic}"
        nodes = self._network.metadata.all_nodes()
        asked = ", ".join(question.asked or (f"{node.host}:{node.port}" for node in nodes))
        failures = (self._network.failure_of(node.id) for node in nodes)
        last = question.last_error or next((failure for failure in failures if failure is not None), None)
        why = "" if last is None else f" The last error was: {last.message}"
        time_ms = round(question.deadline_ms - question.started_ms)
        return RequestTimedOut(f"No metadata of {what} after {time_ms} ms; asked: {asked}.{why}")

    def _answered(self, question: _Question, request: NodeRequest, now_ms: float) -> None:
        question.is_asked = False
        answer = request.answer
        if isinstance(answer, MetadataResponse):
            errors = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics if topic.error_code}
            error = next(iter(errors.values()), ErrorCode.NONE)
            if question.topic is None or error in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
                question.pending.complete(_topics(answer.topics))
                return
            failure = KafkaError(error, f"topic {question.topic}: {error.default_message}")
        else:
            assert request.error is not None, "a completed request has an answer or an error"
            failure = request.error
        if not failure.retriable:
            question.pending.fail(failure)
            return
        question.last_error = failure
        question.not_before_ms = now_ms + self._backoff.after(question.failures)
        question.failures += 1


def _topics(topics: tuple[MetadataResponseMetadataResponseTopic, ...]) -> Topics:
    return {
        topic.name: {
            TopicPartition(topic.name, each.partition_index): partition_info(each) for each in topic.partitions
        }
        for topic in topics
        if topic.name is not None and not topic.error_code
    }
