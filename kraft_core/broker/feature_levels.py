"""Finalized feature levels that this broker does not support, so that no controller registers it.

A cluster can have such levels if its controllers were formatted for Apache's brokers, or by an older version of ours
that claimed to support them. The broker lowers them only when no other broker is registered that may use them.

Source: KIP-584; BrokerFeatures.incompatibleFeatures, Kafka 4.3.1.
"""

import logging
from collections.abc import Callable
from typing import Final

from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
)
from kraft_core.protocol.metadata_version import BROKER_FEATURES

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000
_SAFE_DOWNGRADE: Final = 2


class FeatureLevels:
    """Compares the finalized levels in the image with those that the broker supports."""

    def __init__(
        self, broker_id: int, image: Callable[[], MetadataImage], controller: NodeToControllerChannelManager
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._controller = controller
        self._is_logged = False

    def too_high(self) -> dict[str, int]:
        """Return the broker's highest level of each feature whose finalized level is higher."""
        served = {name: feature.maximum for name, feature in BROKER_FEATURES.items()}
        levels = self._image().features.levels
        return {name: served.get(name, 0) for name, level in sorted(levels.items()) if level > served.get(name, 0)}

    async def lower(self) -> None:
        """Lower these features if this is the only registered broker; else log once what the operator has to do."""
        features = self.too_high()
        if not features:
            return
        others = sorted({*self._image().cluster.brokers} - {self._broker_id})
        cause = f"brokers {others} are registered and may use them"
        if not others and self._broker_id in self._image().cluster.brokers:
            refusal = await self._update(features)
            if refusal is None:
                names = ",".join(f"{name}={level}" for name, level in features.items())
                log.warning("features_lowered", extra={"levels": names, "cause": "this broker does not serve more"})
                return
            cause = refusal
        elif not others:
            cause = "this broker was never registered, so they were chosen for other brokers"
        if not self._is_logged:
            self._is_logged = True
            wanted = " ".join(f"--feature {name}={level}" for name, level in features.items())
            extra = {"cause": cause, "remedy": f"kafka-features.sh --bootstrap-controller HOST:PORT downgrade {wanted}"}
            log.error("features_not_served_by_this_broker", extra=extra)

    async def _update(self, features: dict[str, int]) -> str | None:
        """Request these levels. Return the controller's reason for a refusal, None on success."""
        request = UpdateFeaturesRequest(
            feature_updates=tuple(
                UpdateFeaturesRequestFeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=_SAFE_DOWNGRADE
                )
                for name, level in features.items()
            )
        )
        try:
            response = await self._controller.request(request, UpdateFeaturesResponse, _TIMEOUT_MS)
        except KafkaError as error:
            return error.message
        if response.error_code == ErrorCode.NONE:
            return None
        return f"{ErrorCode(response.error_code).name}: {response.error_message}"
