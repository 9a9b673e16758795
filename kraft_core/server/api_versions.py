"""Answers to ApiVersions: the APIs of a listener, the supported features and the finalized features.

Source: SimpleApiVersionManager, ApiVersionsResponse and KIP-511, Kafka 4.3.1.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.api_keys import ApiKey, apis_of
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import RequestHeader, encode_response
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    ApiVersionsResponseSupportedFeatureKey,
)
from kraft_core.protocol.metadata_version import KRAFT_VERSION, METADATA_VERSION, MINIMUM_METADATA_VERSION, Feature

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NO_EPOCH: Final = -1
_NAMED_SINCE: Final = 3
_ZERO_MINIMUM_SINCE: Final = 4
"""Before this version of ApiVersions, clients cannot read a feature with the minimum level 0: omit it. KAFKA-17011."""


@cache
def controller_versions() -> dict[int, tuple[int, int]]:
    """Return the version range by API key of all APIs that a controller listener serves."""
    return {int(key): (api.min_version, api.max_version) for key, api in apis_of("controller").items()}


class ApiVersionsAnswers:
    """Encoded answers of a listener with the version ranges `served`, by API key.

    `features` are those that this role supports; `finalized` returns the epoch of the finalized features (-1 for none)
    and their levels by name.
    """

    def __init__(
        self,
        served: Mapping[int, tuple[int, int]],
        features: Mapping[str, Feature],
        finalized: Callable[[], tuple[int, Mapping[str, int]]],
    ) -> None:
        self._features = features
        self._finalized = finalized
        self._apis = tuple(
            ApiVersionsResponseApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in sorted(served.items())
        )

    def answer(self, header: RequestHeader, body: ApiVersionsRequest) -> bytes:
        """Answer a supported version; INVALID_REQUEST if the client software's name does not match Kafka's pattern."""
        named = (body.client_software_name, body.client_software_version)
        if header.api_version >= _NAMED_SINCE and not all(_SOFTWARE.fullmatch(name) for name in named):
            response = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            response = self._response(header.api_version)
        return encode_response(response, header, header.correlation_id)

    def unsupported(self, header: RequestHeader) -> bytes:
        """Answer an unsupported version in v0, with the versions of ApiVersions only, so that the client can retry."""
        own = next(api for api in self._apis if api.api_key == ApiKey.API_VERSIONS)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,))
        return encode_response(response, (ApiKey.API_VERSIONS, 0), header.correlation_id)

    def _response(self, version: int) -> ApiVersionsResponse:
        epoch, levels = self._finalized()
        return ApiVersionsResponse(
            api_keys=self._apis,
            supported_features=tuple(
                ApiVersionsResponseSupportedFeatureKey(
                    name=name, min_version=feature.minimum, max_version=feature.maximum
                )
                for name, feature in sorted(self._features.items())
                if version >= _ZERO_MINIMUM_SINCE or feature.minimum > 0
            ),
            finalized_features_epoch=epoch,
            finalized_features=tuple(
                ApiVersionsResponseFinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(levels.items())
                if level > 0
            ),
        )


def controller_features(image: MetadataImage, kraft_version: int) -> tuple[int, Mapping[str, int]]:
    """Return a controller's finalized features: with kraft.version, and with a metadata.version even if none is set."""
    features = image.features
    levels = {**dict(features.levels.items()), KRAFT_VERSION: kraft_version}
    levels[METADATA_VERSION] = features.metadata_version or MINIMUM_METADATA_VERSION
    return _NO_EPOCH if features.metadata_version is None else image.offset, levels


def broker_features(image: MetadataImage) -> tuple[int, Mapping[str, int]]:
    """Return a broker's finalized features: those of the image."""
    levels = {**dict(image.features.levels.items()), METADATA_VERSION: image.features.level(METADATA_VERSION)}
    return image.offset, levels
