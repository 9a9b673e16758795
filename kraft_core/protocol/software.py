"""What this program calls itself towards other nodes. Source: KIP-511."""

from typing import Final

from kraft_core.protocol.messages import ApiVersionsRequest

SOFTWARE_NAME: Final = "conclave"
SOFTWARE_VERSION: Final = "0.1.0"


def api_versions_request() -> ApiVersionsRequest:
    """Build the first request on a connection: it asks which versions the peer has."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
