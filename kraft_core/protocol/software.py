"""The software name and version sent to other nodes. Source: KIP-511."""

from typing import Final

from kraft_core.protocol.messages import ApiVersionsRequest

SOFTWARE_NAME: Final = "conclave"
SOFTWARE_VERSION: Final = "0.1.0"


def api_versions_request() -> ApiVersionsRequest:
    """Return the first request on a connection, for the peer's versions."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
