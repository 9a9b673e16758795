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

_TopicKey = tuple[str | None, "UUID"]


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    version: int,
    config: ControllerConfig,
    random: Random,
    access: RequestAccess = EVERYTHING,
) -> ControllerResult[DeleteTopicsResponse]:
    """Delete each topic; its RemoveTopicRecord also removes partitions and configs.

    Errors of a topic: INVALID_REQUEST (both or neither of name and id, a repetition), UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, THROTTLING_QUOTA_EXCEEDED. The results are shuffled, so that
    their order does not distinguish missing topics from topics that the sender may not describe.

    Raises KafkaError if deletion is disabled: INVALID_REQUEST below version 3, else TOPIC_DELETION_DISABLED.
    """
    if not config.delete_topic_enable:
        if version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    keys: list[_TopicKey] = [(name, ZERO_UUID) for name in request.topic_names]
    keys.extend((state.name, state.topic_id) for state in request.topics)
    counts = Counter(keys)
    by_both = _named_and_identified(image, keys)
    records: list[MetadataRecord] = []
    results = []
    for key, count in counts.items():
        name, topic_id = key
        if name is None and topic_id in by_both:
            continue  # the result of its name says so
        code, message = ErrorCode.NONE, None
        try:
            _check_key(key, count)
            topic = _find(image, key, access)
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


def _named_and_identified(image: MetadataImage, keys: list[_TopicKey]) -> set[UUID]:
    """Return the ids of topics that the request identifies by name too; they are not deleted."""
    names = {name for name, _ in keys if name is not None}
    ids = {topic_id for name, topic_id in keys if name is None}
    return {
        topic_id for topic_id in ids if topic_id in image.topics.by_id and image.topics.by_id[topic_id].name in names
    }


def _check_key(key: _TopicKey, count: int) -> None:
    name, topic_id = key
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")


def _find(image: MetadataImage, key: _TopicKey, access: RequestAccess) -> TopicImage:
    """Return the topic. Raises KafkaError if it does not exist or the sender may not describe or delete it."""
    name, topic_id = key
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
