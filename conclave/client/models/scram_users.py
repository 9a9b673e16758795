"""Models of scram users. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer


class ScramCredentialData(Answer, frozen=True, kw_only=True):
    """One credential, without its secrets."""

    mechanism: str
    iterations: int


class ScramUserData(Answer, frozen=True, kw_only=True):
    """A SCRAM user."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    user_name: str
    credentials: list[ScramCredentialData]


class ScramUserDataList(Answer, frozen=True, kw_only=True):
    """SCRAM users."""

    metadata: ListMetadata
    data: list[ScramUserData]
    kind: str
