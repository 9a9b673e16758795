"""Methods about scram users. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import AsyncMethods
from conclave.client.models.scram_users import ScramUserData, ScramUserDataList
from conclave.client.models.shared import DryRunData
from conclave.client.pages import AsyncPages


class ScramUsersMethods(AsyncMethods):
    """Methods about scram users."""

    def list_scram_users(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[ScramUserDataList, ScramUserData]:
        """List the users that log in to the cluster with SCRAM, without anything derived from their passwords."""
        return AsyncPages(
            self._send,
            Call[ScramUserDataList](
                "GET",
                "/v3/clusters/{cluster_id}/scram-users",
                {200: ScramUserDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_scram_user(
        self, user_name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> ScramUserData:
        """Describe one SCRAM user."""
        return await self._send(
            Call[ScramUserData](
                "GET",
                "/v3/clusters/{cluster_id}/scram-users/{user_name}",
                {200: ScramUserData},
                path={"user_name": user_name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def put_scram_user(
        self,
        user_name: str,
        mechanism: str,
        *,
        password: str,
        iterations: int | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> DryRunData | None:
        """Set a user's password for one mechanism."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/scram-users/{user_name}/credentials/{mechanism}",
                {200: DryRunData, 204: None},
                path={"user_name": user_name, "mechanism": mechanism},
                query={"validate_only": validate_only},
                body={"password": password, "iterations": iterations},
            )
        )

    async def delete_scram_user(
        self, user_name: str, mechanism: str, *, validate_only: bool = False
    ) -> DryRunData | None:
        """Delete a user's password for one mechanism."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/scram-users/{user_name}/credentials/{mechanism}",
                {200: DryRunData, 204: None},
                path={"user_name": user_name, "mechanism": mechanism},
                query={"validate_only": validate_only},
            )
        )
