"""UpdateFeatures and producer id blocks."""

from typing import Any

import pytest

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import FeatureLevelRecord, NoOpRecord
from tests.controller.active_controller import ActiveController

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(*levels: tuple[str, int, int], **fields: Any) -> m.UpdateFeaturesRequest:
    return m.UpdateFeaturesRequest(
        feature_updates=tuple(
            m.UpdateFeaturesRequestFeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in levels
        ),
        **fields,
    )


def at(level: int, **features: int) -> ActiveController:
    named = {name.replace("_", "."): value for name, value in features.items()}
    return ActiveController(bootstrap_features={"metadata.version": level, **named})


def test_features_change_together_in_one_batch() -> None:
    active = at(23)
    before = len(active.writer.batches)
    answer = active.ask(update(("metadata.version", 30, UPGRADE), ("group.version", 1, UPGRADE)))
    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    assert len(active.writer.batches) == before + 1
    assert active.tip.features.metadata_version == 30
    assert active.tip.features.level("group.version") == 1


def test_one_refusal_refuses_all() -> None:
    active = at(23)
    answer = active.ask(update(("group.version", 1, UPGRADE), ("metadata.version", 99, UPGRADE)))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert active.tip.features.level("group.version") == 0


def test_validate_only_returns_the_same_and_writes_nothing() -> None:
    active = at(23)
    before = active.writer.next_offset
    assert active.ask(update(("group.version", 1, UPGRADE), validate_only=True)).error_code == ErrorCode.NONE
    refused = active.ask(update(("group.version", 5, UPGRADE), validate_only=True))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert active.writer.next_offset == before


def test_versions_0_and_1_name_each_feature_on_success() -> None:
    active = at(23)
    answer = active.ask(update(("group.version", 1, UPGRADE)), 1)
    assert [(result.feature, result.error_code) for result in answer.results] == [("group.version", 0)]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (("group.version", 1, 0), "The controller does not support the given upgrade type."),
        (("group.version", -1, UPGRADE), "A feature version cannot be less than 0."),
        (("group.version", 2, UPGRADE), "Local controller 1 only supports versions 0-1"),
        (("no.such.feature", 1, UPGRADE), "Local controller 1 does not support this feature."),
        (("transaction.version", 1, UPGRADE), "Can't downgrade the version of this feature without setting"),
        (("transaction.version", 2, SAFE), None),
        (("transaction.version", 1, SAFE), None),
        (("group.version", 1, SAFE), "Can't downgrade to a newer version."),
        (("metadata.version", 26, SAFE), None),
        (("metadata.version", 22, SAFE), "might delete metadata information"),
        (("metadata.version", 22, UNSAFE), "Unsafe metadata downgrade is not supported in this version."),
        (("metadata.version", 31, UPGRADE), "only supports versions 7-30"),
        (("kraft.version", 0, SAFE), "Can't downgrade the version of this feature."),
    ],
)
def test_a_level_is_changed_only_where_kafka_changes_it(wanted: tuple[str, int, int], reason: str | None) -> None:
    answer = at(27, transaction_version=2).ask(update(wanted))
    if reason is None:
        assert answer.error_code == ErrorCode.NONE
    else:
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert reason in (answer.error_message or "")


def test_a_dependency_may_be_met_by_the_same_request() -> None:
    active = at(22)
    elr = ("eligible.leader.replicas.version", 1, UPGRADE)
    assert "depends on metadata.version level 23" in (active.ask(update(elr)).error_message or "")
    assert active.ask(update(("metadata.version", 23, UPGRADE), elr)).error_code == ErrorCode.NONE


def test_a_broker_without_support_blocks_a_feature() -> None:
    active = at(23)
    range_of = m.BrokerRegistrationRequestFeature
    old = (
        range_of(name="metadata.version", min_supported_version=7, max_supported_version=25),
        range_of(name="kraft.version", min_supported_version=0, max_supported_version=1),
    )
    active.register(5, features=old)
    answer = active.ask(update(("metadata.version", 30, UPGRADE)))
    assert "Broker 5 only supports versions 7-25" in (answer.error_message or "")


def test_an_unregistered_voter_blocks_a_feature() -> None:
    active = at(23)
    active.writer.voter_ids = (1, 2)
    answer = active.ask(update(("metadata.version", 30, UPGRADE)))
    assert "controller 2 has not registered, and may not support this feature" in (answer.error_message or "")


def test_enabling_elr_records_the_cluster_wide_min_insync_replicas_first() -> None:
    active = at(30)
    before = len(active.log())
    active.ask(update(("eligible.leader.replicas.version", 1, UPGRADE)))
    config, feature = active.log()[before:]
    assert (config.name, config.resource_name, config.value) == ("min.insync.replicas", "", "1")
    assert isinstance(feature, FeatureLevelRecord)


def test_kraft_version_is_raised_by_raft_and_answered_after_a_noop() -> None:
    active = at(30)
    active.writer.kraft_version = 0
    request_id = active.send(update(("kraft.version", 1, UPGRADE)))
    assert request_id not in active.answers
    active.commit()
    assert active.answers[request_id].error_code == ErrorCode.NONE
    assert active.writer.kraft_upgrades == [(1, False)]
    assert active.log()[-1] == NoOpRecord()


@pytest.mark.parametrize("allowed", [False, True])
def test_version_0_can_only_upgrade(allowed: bool) -> None:
    """KRaft controllers ignore AllowDowngrade; only later versions have an upgrade type."""
    active = at(27, transaction_version=1)
    key = m.UpdateFeaturesRequestFeatureUpdateKey
    for level, code in ((0, ErrorCode.INVALID_UPDATE_VERSION), (2, ErrorCode.NONE)):
        wanted = key(feature="transaction.version", max_version_level=level, allow_downgrade=allowed)
        assert active.ask(m.UpdateFeaturesRequest(feature_updates=(wanted,)), 0).error_code == code


@pytest.mark.parametrize("name", ["", "nobody.has.this", "User:x"])
@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_level_0_of_an_unknown_feature_is_refused_and_the_controller_stays(name: str, kind: int) -> None:
    active = at(23)
    answer = active.ask(update((name, 0, kind)))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"Feature {name} not found." in answer.error_message
