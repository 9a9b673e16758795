"""Upgrades and downgrades of finalized features (KIP-584, KIP-778). Source: FeatureControlManager, QuorumFeatures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kraft_core.controller.brokers.cluster_control_manager import metadata_version
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.metadata_image import VersionRange
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseUpdatableFeatureResult,
)
from kraft_core.protocol.metadata_records import FeatureLevelRecord, NoOpRecord
from kraft_core.protocol.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    did_metadata_change,
    is_controller_registration_supported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord

log = logging.getLogger(__name__)

ELR_VERSION: Final = ELIGIBLE_LEADER_REPLICAS_VERSION

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

_DISABLED: Final = VersionRange(0, 0)


def supported_features() -> dict[str, VersionRange]:
    """Return the feature levels that this software supports."""
    return {name: VersionRange(feature.minimum, feature.maximum) for name, feature in FEATURES.items()}


class FeatureControlManager:
    """Changes feature levels. `quorum` gives the voters and kraft.version, which raft keeps."""

    def __init__(self, node_id: int, quorum: RecordWriter, configuration: ConfigurationControlManager) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._configuration = configuration

    def update_features(
        self, image: MetadataImage, request: UpdateFeaturesRequest, version: int
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """Change feature levels, all or none, in one atomic batch.

        The configs that eligible leader replicas need are written before the feature is enabled. Versions 0 and 1 name
        each feature in the response, on success only. The response has INVALID_UPDATE_VERSION and the first reason for:

        - an unknown upgrade type, or a downgrade with the type of an upgrade;
        - a level below 0, or one that a registered broker or controller does not support;
        - a controller that has not registered;
        - a downgrade of metadata.version across a change of metadata, or of kraft.version;
        - a level that depends on a higher metadata.version.
        """
        wanted = {update.feature: update for update in request.feature_updates}
        proposed = {
            **image.features.levels,
            METADATA_VERSION: metadata_version(image),
            **{name: update.max_version_level for name, update in wanted.items()},
        }
        records: list[MetadataRecord] = []
        try:
            for update in wanted.values():
                records.extend(self._update(image, update, proposed, validate_only=request.validate_only))
        except KafkaError as error:
            log.warning("feature_update_refused", extra={"reason": error.message})
            message = f"The update failed for all features since the following feature had an error: {error.message}"
            return ControllerResult((), UpdateFeaturesResponse(error_code=error.code, error_message=message))
        if proposed.get(ELR_VERSION, 0) > 0 and ELR_VERSION in wanted:
            records = [*self._configuration.elr_safety_records(image), *records]
        results = tuple(
            UpdateFeaturesResponseUpdatableFeatureResult(feature=update.feature, error_code=0, error_message="NONE")
            for update in request.feature_updates
            if version <= 1
        )
        response = UpdateFeaturesResponse(error_message=None, results=results)
        return ControllerResult(() if request.validate_only else records, response, is_atomic=True)

    def _update(
        self,
        image: MetadataImage,
        update: UpdateFeaturesRequestFeatureUpdateKey,
        proposed: Mapping[str, int],
        *,
        validate_only: bool,
    ) -> Iterator[MetadataRecord]:
        name, level = update.feature, update.max_version_level
        kind = update.upgrade_type  # v0 has none, and is an upgrade whatever its allow_downgrade says, as in Kafka
        if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
            raise _invalid(name, level, "The controller does not support the given upgrade type.")
        current = self._quorum.kraft_version if name == KRAFT_VERSION else image.features.level(name)
        if level < 0:
            raise _invalid(name, level, "A feature version cannot be less than 0.")
        reason = _reason_not_supported(image, name, level, self._node_id, self._quorum)
        if reason is not None:
            raise _invalid(name, level, reason)
        if level < current and kind == UPGRADE:
            raise _invalid(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                "downgrade.",
            )
        if level > current and kind != UPGRADE:
            raise _invalid(name, level, "Can't downgrade to a newer version.")
        if name == METADATA_VERSION:
            _check_metadata_version(current, level, unsafe=kind == UNSAFE_DOWNGRADE)
        elif name == KRAFT_VERSION:
            yield from _update_kraft_version(level, current, kind, self._quorum, validate_only)
            return
        else:
            if name not in FEATURES:  # level 0 of an unknown feature passes the checks above
                raise _invalid(name, level, f"Feature {name} not found.")
            feature = FEATURES[name]
            least = feature.needs_metadata_version[level - feature.minimum - 1] if level > feature.minimum else 0
            if proposed[METADATA_VERSION] < least:
                reason = f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {least}"
                raise _invalid(name, level, reason)
        yield FeatureLevelRecord(name=name, feature_level=level)


def _update_kraft_version(
    level: int, current: int, kind: int, quorum: RecordWriter, validate_only: bool
) -> Iterator[MetadataRecord]:
    """Let raft append the new kraft.version; the NoOpRecord gives the response an offset to wait for."""
    if kind == UPGRADE:
        try:
            quorum.upgrade_kraft_version(level, validate_only=validate_only)
        except KafkaError as error:
            raise _invalid(KRAFT_VERSION, level, error.message) from error
        yield NoOpRecord()
    elif level != current:
        raise _invalid(KRAFT_VERSION, level, "Can't downgrade the version of this feature.")


def _check_metadata_version(current: int, level: int, *, unsafe: bool) -> None:
    if level >= current or not did_metadata_change(current, level):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
    )


def _reason_not_supported(
    image: MetadataImage, name: str, level: int, node_id: int, quorum: RecordWriter
) -> str | None:
    """Return the first node that does not support this level of a feature, as a sentence; None if all support it."""
    reason = _outside(level, f"Local controller {node_id}", supported_features().get(name, _DISABLED))
    if reason is not None:
        return reason
    for broker_id, broker in sorted(image.cluster.brokers.items(), key=lambda item: item[0]):
        reason = _outside(level, f"Broker {broker_id}", broker.supported_features.get(name, _DISABLED))
        if reason is not None:
            return reason
    if not is_controller_registration_supported(metadata_version(image)):
        return None
    controllers = image.cluster.controllers
    for controller_id, controller in sorted(controllers.items(), key=lambda item: item[0]):
        if controller_id != node_id:
            reason = _outside(level, f"Controller {controller_id}", controller.supported_features.get(name, _DISABLED))
            if reason is not None:
                return reason
    for voter_id in sorted(quorum.voter_ids):
        if voter_id != node_id and voter_id not in controllers:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _outside(level: int, node: str, supported: VersionRange) -> str | None:
    if supported.contains(level):
        return None
    if supported.max == 0:
        return f"{node} does not support this feature."
    low, high = supported.min, supported.max
    return f"{node} only supports versions {low if low == high else f'{low}-{high}'}"


def _invalid(name: str, level: int, message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {message}")
