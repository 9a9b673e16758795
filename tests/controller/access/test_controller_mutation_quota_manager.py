"""The controller mutation quota (KIP-599), after ControllerMutationQuotaTest and …ManagerTest."""

from typing import Any

import pytest

from kraft_core.controller.access.controller_mutation_quota_manager import ControllerMutationQuotaManager
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import ClientQuotaRecord, ClientQuotaRecordEntityData
from tests.controller.active_controller import ActiveController

RATE = "controller_mutation_rate"


def image_with(*rates: tuple[dict[str, str | None], float]) -> MetadataImage:
    records = [
        ClientQuotaRecord(
            entity=tuple(
                ClientQuotaRecordEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ),
            key=RATE,
            value=rate,
        )
        for entity, rate in rates
    ]
    return replay_all(MetadataImage.EMPTY, records, len(records), 1)


def limited(rate: float = 1.0, user: str | None = "ANONYMOUS") -> ActiveController:
    active = ActiveController(quota_window_num=11, quota_window_size_seconds=1)
    active.start_broker(1)
    active.ask(
        m.AlterClientQuotasRequest(
            entries=(
                m.AlterClientQuotasRequestEntryData(
                    entity=(m.AlterClientQuotasRequestEntityData(entity_type="user", entity_name=user),),
                    ops=(m.AlterClientQuotasRequestOpData(key=RATE, value=rate),),
                ),
            )
        )
    )
    return active


def create(active: ActiveController, *topics: tuple[str, int], version: int = 7, **fields: Any) -> Any:
    wanted = tuple(
        m.CreateTopicsRequestCreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics
    )
    return active.ask(m.CreateTopicsRequest(topics=wanted, **fields), version)


def codes(answer: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


def test_a_client_may_burst_and_is_refused_while_its_bucket_is_negative() -> None:
    """11 windows of 1 s at 1 partition per second give 11 tokens, which one request may exceed."""
    active = limited()
    assert codes(create(active, ("a", 10))) == {"a": 0}
    assert codes(create(active, ("b", 10))) == {"b": 0}
    answer = create(active, ("c", 1))
    assert codes(answer) == {"c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert answer.topics[0].error_message == "The throttling quota has been exceeded."
    assert answer.throttle_time_ms == 9_000
    assert "c" not in active.committed.topics.by_name


def test_a_client_may_continue_when_its_bucket_is_refilled() -> None:
    active = limited()
    create(active, ("a", 20))
    active.advance(8_999)
    assert codes(create(active, ("b", 1))) == {"b": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    active.advance(1)
    assert codes(create(active, ("b", 1))) == {"b": 0}


def test_a_request_is_served_as_far_as_its_tokens_last() -> None:
    active = limited()
    answer = create(active, ("a", 6), ("b", 6), ("c", 1))
    assert codes(answer) == {"a": 0, "b": 0, "c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert answer.throttle_time_ms == 1_000


def test_an_older_version_is_served_and_throttled() -> None:
    """KIP-599: CreateTopics below version 6 does not have the error."""
    active = limited()
    create(active, ("a", 20), version=5)
    answer = create(active, ("b", 1), version=5)
    assert codes(answer) == {"b": 0}
    assert answer.throttle_time_ms == 10_000


def test_deleting_counts_too() -> None:
    active = limited()
    create(active, ("a", 12))
    deletion = m.DeleteTopicsRequest(topics=(m.DeleteTopicsRequestDeleteTopicState(name="a"),))
    answer = active.ask(deletion)
    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms == 1_000
    older = active.ask(m.DeleteTopicsRequest(topic_names=("a",)), 4)
    assert (older.responses[0].error_code, older.throttle_time_ms) == (0, 13_000)


def test_adding_partitions_counts_too() -> None:
    active = limited()
    create(active, ("b", 13))
    growth = m.CreatePartitionsRequest(
        topics=(m.CreatePartitionsRequestCreatePartitionsTopic(name="b", count=14, assignments=None),)
    )
    answer = active.ask(growth)
    assert answer.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert active.ask(growth, 2).results[0].error_code == 0


def test_a_refused_topic_costs_nothing() -> None:
    active = limited()
    create(active, ("a", 11))
    create(active, ("a", 11))
    assert codes(create(active, ("b", 1))) == {"b": 0}


def test_without_a_quota_no_client_is_throttled() -> None:
    active = limited(user="somebody-else")
    for number in range(5):
        answer = create(active, (f"t{number}", 100))
        assert (codes(answer)[f"t{number}"], answer.throttle_time_ms) == (0, 0)


def spend(
    manager: ControllerMutationQuotaManager, image: MetadataImage, user: str, client: str, now_ms: int = 0
) -> bool:
    """Take one token; return whether it was available."""
    quota = manager.quota_for(image, f"User:{user}", client, now_ms, is_strict=True)
    if quota is None:
        return True
    try:
        quota.record(1)
    except KafkaError:
        return False
    return True


def tokens(image: MetadataImage, user: str, client: str) -> int:
    """Return how many partitions a client may create at once; 1,000 means unlimited."""
    manager = ControllerMutationQuotaManager(1, 1)
    return next((count for count in range(1000) if not spend(manager, image, user, client)), 1000)


def test_the_most_specific_quota_counts() -> None:
    """DefaultQuotaCallback: user and client before user before client, names before defaults."""
    order: list[dict[str, str | None]] = [
        {"user": "u", "client-id": "c"},
        {"user": "u", "client-id": None},
        {"user": "u"},
        {"user": None, "client-id": "c"},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": "c"},
        {"client-id": None},
    ]
    for first in range(len(order)):
        image = image_with(*((entity, 10.0 * (first + step + 1)) for step, entity in enumerate(order[first:])))
        assert tokens(image, "u", "c") == 10 * (first + 1) + 1
    assert tokens(image_with((order[0], 1.0)), "u", "other") == 1000


@pytest.mark.parametrize(
    ("entity", "is_shared"),
    [
        ({"user": "u"}, True),
        ({"user": None}, True),
        ({"user": "u", "client-id": None}, False),
        ({"client-id": None}, False),
    ],
)
def test_clients_of_a_user_share_a_bucket_when_the_quota_is_the_users(
    entity: dict[str, str | None], is_shared: bool
) -> None:
    image, manager = image_with((entity, 1.0)), ControllerMutationQuotaManager(1, 1)
    while spend(manager, image, "u", "c1"):
        pass
    assert spend(manager, image, "u", "c2") is not is_shared


def test_a_client_without_an_id_shares_the_users_bucket() -> None:
    image, manager = image_with(({"user": "u"}, 1.0)), ControllerMutationQuotaManager(1, 1)
    while spend(manager, image, "u", "c1"):
        pass
    assert not spend(manager, image, "u", "")


def test_a_quota_that_is_raised_fills_the_bucket_faster() -> None:
    manager = ControllerMutationQuotaManager(1, 1)
    while spend(manager, image_with(({"user": "u"}, 1.0)), "u", "c"):
        pass
    assert not spend(manager, image_with(({"user": "u"}, 1.0)), "u", "c", 10)
    assert spend(manager, image_with(({"user": "u"}, 1000.0)), "u", "c", 20)


def test_only_full_buckets_are_dropped() -> None:
    image, manager = image_with(({"client-id": None}, 100.0)), ControllerMutationQuotaManager(1, 1)
    debtor = manager.quota_for(image, "User:u", "debtor", 0, is_strict=True)
    assert debtor is not None
    debtor.record(1_000)
    for number in range(9_999):
        spend(manager, image, "u", f"c{number}")
    spend(manager, image, "u", "late", 995)
    spend(manager, image, "u", "one more", 1_000)
    assert set(manager._buckets) == {(None, "debtor"), (None, "late"), (None, "one more")}
