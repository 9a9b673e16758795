"""DeleteTopics, by name or by id. Source: ControllerApis.deleteTopics, Kafka 4.3.1."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kraft_core.controller.access.request_access import EVERYTHING, RequestAccess
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import DeleteTopicsResponse, DeleteTopicsResponseDeletableTopicResult
from kraft_core.protocol.metadata_records import RemoveTopicRecord
from kraft_core.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import TopicImage
    from kraft_core.protocol.messages import DeleteTopicsRequest
    from kraft_core.protocol.metadata_records import MetadataRecord

_Wish = tuple[str | None, "UUID"]


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    version: int,
    config: ControllerConfig,
    random: Random,
    access: RequestAccess = EVERYTHING,
) -> ControllerResult[DeleteTopicsResponse]:
    """Delete each named topic; RemoveTopicRecord takes partitions and configs along.

    Per topic: INVALID_REQUEST (both or neither of name and id, a repetition), UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, THROTTLING_QUOTA_EXCEEDED. The results are shuffled, so that
    their order does not tell absent topics from those that the sender may not see.

    Raises KafkaError when deletion is switched off: INVALID_REQUEST below version 3, else TOPIC_DELETION_DISABLED.
    """
    if not config.delete_topic_enable:
        if version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    wishes: list[_Wish] = [(name, ZERO_UUID) for name in request.topic_names]
    wishes.extend((state.name, state.topic_id) for state in request.topics)
    counts = Counter(wishes)
    by_both = _named_and_identified(image, wishes)
    records: list[MetadataRecord] = []
    results = []
    for wish, count in counts.items():
        name, topic_id = wish
        if name is None and topic_id in by_both:
            continue  # answered under its name
        code, message = ErrorCode.NONE, None
        try:
            _check_wish(wish, count)
            topic = _find(image, wish, access)
            name, topic_id = topic.name, topic.id
            if topic_id in by_both:
                message = "The provided topic name maps to an ID that was already supplied."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            access.apply_partition_change_quota(len(topic.partitions))
            records.append(RemoveTopicRecord(topic_id=topic_id))
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(
            DeleteTopicsResponseDeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=message
            )
        )
    random.shuffle(results)
    return ControllerResult.atomic_of(records, DeleteTopicsResponse(responses=tuple(results)))


def _named_and_identified(image: MetadataImage, wishes: list[_Wish]) -> set[UUID]:
    """Return the ids of topics that a request names as well: none of these is deleted."""
    names = {name for name, _ in wishes if name is not None}
    ids = {topic_id for name, topic_id in wishes if name is None}
    return {
        topic_id for topic_id in ids if topic_id in image.topics.by_id and image.topics.by_id[topic_id].name in names
    }


def _check_wish(wish: _Wish, count: int) -> None:
    name, topic_id = wish
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")


def _find(image: MetadataImage, wish: _Wish, access: RequestAccess) -> TopicImage:
    """Return the topic if the sender may delete it; what it may not see it does not learn about."""
    name, topic_id = wish
    if name is None:
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        if not access.may_describe(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = image.topics.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not access.may_delete(topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic
