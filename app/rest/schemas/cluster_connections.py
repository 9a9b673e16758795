"""Bodies and answers about the clusters that were added to this process."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.cluster.known_clusters import ADDRESSES_MAX, COLORS, NAME_MAX, URL_MAX
from app.config import ClusterColor
from app.rest.schemas.base import ChangeBody, ListOf, Metadata, Related, Validated


class ClusterConnectionBody(ChangeBody):
    """A cluster: its name on the pages, the addresses of its controllers (HOST:PORT), and its colour.

    `command_config` is the name of a file of client properties in the folder `client_configs` of the server, null for
    plaintext. It also has the login of the schema registry (`basic.auth.user.info`), so that no secret is sent or kept.
    """

    name: str = Field(max_length=NAME_MAX)
    bootstrap_controllers: list[Annotated[str, StringConstraints(max_length=300)]] = Field(max_length=ADDRESSES_MAX)
    command_config: str | None = Field(default=None, max_length=255)
    schema_registry_url: str | None = Field(default=None, max_length=URL_MAX)
    color: ClusterColor = COLORS[0]


class ClusterConnectionData(Validated):
    """An added cluster. `key` is in the addresses of its pages, /c/KEY/; `cluster` is its resource."""

    kind: Literal["ConclaveClusterConnection"]
    metadata: Metadata
    key: str
    name: str
    cluster_id: str
    bootstrap_controllers: list[str]
    command_config: str | None
    schema_registry_url: str | None
    color: ClusterColor
    changed_by: str
    changed_at: str
    cluster: Related


class ClusterConnectionDataList(ListOf[ClusterConnectionData]):
    """Added clusters by name."""

    kind: Literal["ConclaveClusterConnectionList"]
