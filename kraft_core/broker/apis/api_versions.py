"""ApiVersions as the broker answers it: exactly what it serves, the features it supports, those the cluster has finalized.

Source: DefaultApiVersionManager, Kafka 4.3.1; KIP-511, KIP-584.
"""

import re
from collections.abc import Mapping
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import encode_response
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    ApiVersionsResponseSupportedFeatureKey,
)
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.server.socket_server import Request

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_SINCE: Final = 3
_ZERO_MINIMUM_SINCE: Final = 4


class ApiVersionsHandler:
    """Answers ApiVersions in any version, also one that is not served: in v0 then, so that the client can ask again."""

    def __init__(self, context: BrokerContext, served: Mapping[int, tuple[int, int]]) -> None:
        self._context = context
        self._apis = tuple(
            ApiVersionsResponseApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in sorted(served.items())
        )
        self._own = served[ApiKey.API_VERSIONS]

    def handle(self, request: Request) -> None:
        """Answer. Errors: UNSUPPORTED_VERSION, INVALID_REQUEST for a client software name that is none."""
        header = request.header
        if not self._own[0] <= header.api_version <= self._own[1]:
            own = next(api for api in self._apis if api.api_key == ApiKey.API_VERSIONS)
            response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,))
            request.respond_bytes(encode_response(response, (ApiKey.API_VERSIONS, 0), header.correlation_id))
            return
        body = request.body()
        assert isinstance(body, ApiVersionsRequest)
        named = (body.client_software_name, body.client_software_version)
        if header.api_version >= _NAMED_SINCE and not all(_SOFTWARE.fullmatch(name) for name in named):
            request.respond(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        request.respond(self._response(header.api_version))

    def _response(self, version: int) -> ApiVersionsResponse:
        image = self._context.metadata.image
        levels = dict(image.features.levels.items())
        if image.features.metadata_version is not None:
            levels["metadata.version"] = image.features.metadata_version
        return ApiVersionsResponse(
            api_keys=self._apis,
            supported_features=tuple(
                ApiVersionsResponseSupportedFeatureKey(
                    name=name, min_version=feature.minimum, max_version=feature.maximum
                )
                for name, feature in sorted(FEATURES.items())
                if version >= _ZERO_MINIMUM_SINCE or feature.minimum > 0
            ),
            finalized_features_epoch=image.offset,
            finalized_features=tuple(
                ApiVersionsResponseFinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(levels.items())
                if level > 0
            ),
        )
