"""ApiVersions of the broker: exactly the APIs that it serves.

Source: DefaultApiVersionManager, Kafka 4.3.1; KIP-511, KIP-584.
"""

from collections.abc import Mapping

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.messages import ApiVersionsRequest
from kraft_core.protocol.metadata_version import BROKER_FEATURES
from kraft_core.server.api_versions import ApiVersionsAnswers, broker_features
from kraft_core.server.network.request import Request


class ApiVersionsHandler:
    """Answers ApiVersions in any version. An unsupported one is answered in version 0, so that the client can retry.

    `answers` also serves the connections that have not logged in yet.
    """

    def __init__(self, context: BrokerContext, served: Mapping[int, tuple[int, int]]) -> None:
        self.answers = ApiVersionsAnswers(served, BROKER_FEATURES, lambda: broker_features(context.metadata.image))
        self._own = served[ApiKey.API_VERSIONS]

    def handle(self, request: Request) -> None:
        """Answer the request. Errors: UNSUPPORTED_VERSION; INVALID_REQUEST for an invalid client software name."""
        header = request.header
        if not self._own[0] <= header.api_version <= self._own[1]:
            request.respond_bytes(self.answers.unsupported(header))
            return
        body = request.body()
        assert isinstance(body, ApiVersionsRequest)
        request.respond_bytes(self.answers.answer(header, body))
