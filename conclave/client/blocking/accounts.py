"""Methods about accounts. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.accounts import (
    AuditEventData,
    AuditEventDataList,
    GrantData,
    GrantDataList,
    LoginLinkData,
    SessionData,
    SessionDataList,
    TokenData,
    TokenDataList,
    UserData,
    UserDataList,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class AccountsMethods(Methods):
    """Methods about accounts."""

    def list_users(self) -> Pages[UserDataList, UserData]:
        """List the users by name."""
        return Pages(self._send, Call[UserDataList]("GET", "/v3/users", {200: UserDataList}))

    def create_user(
        self,
        *,
        name: str,
        role: Literal["none", "viewer", "editor", "admin"],
        password: str | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> UserData:
        """Add a user."""
        return self._send(
            Call[UserData](
                "POST",
                "/v3/users",
                {200: UserData, 201: UserData},
                query={"validate_only": validate_only},
                body={"name": name, "role": role, "password": password},
            )
        )

    def update_user(
        self,
        name: str,
        *,
        role: Literal["none", "viewer", "editor", "admin"] | UnsetType | None = UNSET,
        disabled: bool | UnsetType | None = UNSET,
        password: str | UnsetType | None = UNSET,
        present_password: str | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> UserData:
        """Change the role, state or password of a user. Its sessions end, except the one that changes its own password."""
        return self._send(
            Call[UserData](
                "PATCH",
                "/v3/users/{name}",
                {200: UserData},
                path={"name": name},
                query={"validate_only": validate_only},
                body={"role": role, "disabled": disabled, "password": password, "present_password": present_password},
            )
        )

    def delete_user(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Remove a user."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/users/{name}",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def list_grants(self, name: str) -> Pages[GrantDataList, GrantData]:
        """List a user's roles in single clusters and for prefixes of topics."""
        return Pages(
            self._send, Call[GrantDataList]("GET", "/v3/users/{name}/grants", {200: GrantDataList}, path={"name": name})
        )

    def put_grant(
        self,
        name: str,
        *,
        role: Literal["viewer", "editor", "admin"],
        cluster: str | UnsetType = UNSET,
        topic_prefix: str | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> GrantDataList:
        """Give a user a role in a cluster, beside the others. It replaces the one given before for the same prefix."""
        return self._send(
            Call[GrantDataList](
                "PUT",
                "/v3/users/{name}/grants",
                {200: GrantDataList},
                path={"name": name},
                query={"validate_only": validate_only},
                body={"cluster": cluster, "topic_prefix": topic_prefix, "role": role},
            )
        )

    def delete_grant(
        self, name: str, *, cluster: str | None = None, topic_prefix: str | None = None, validate_only: bool = False
    ) -> DryRunData | None:
        """Take a role in a cluster from a user. Those of groups end at the issuer."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/users/{name}/grants",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"cluster": cluster, "topic_prefix": topic_prefix, "validate_only": validate_only},
            )
        )

    def list_sessions(self, name: str) -> Pages[SessionDataList, SessionData]:
        """List a user's open sessions, the most recently used first."""
        return Pages(
            self._send,
            Call[SessionDataList]("GET", "/v3/users/{name}/sessions", {200: SessionDataList}, path={"name": name}),
        )

    def end_sessions(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """End all of a user's sessions, except the caller's."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/users/{name}/sessions",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def reset_second_factor(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Turn off the second factor of a user who has lost it. The user's sessions end."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/users/{name}/second-factor",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def end_session(self, name: str, session_id: int, *, validate_only: bool = False) -> DryRunData | None:
        """End one of a user's sessions."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/users/{name}/sessions/{session_id}",
                {200: DryRunData, 204: None},
                path={"name": name, "session_id": session_id},
                query={"validate_only": validate_only},
            )
        )

    def create_login_link(self, name: str, *, validate_only: bool = False) -> LoginLinkData:
        """Create a link that logs the user in once within a day. Earlier links of the user expire."""
        return self._send(
            Call[LoginLinkData](
                "POST",
                "/v3/users/{name}/login-link",
                {200: LoginLinkData, 201: LoginLinkData},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def list_tokens(self) -> Pages[TokenDataList, TokenData]:
        """List the API tokens by name, including revoked ones, without their secrets."""
        return Pages(self._send, Call[TokenDataList]("GET", "/v3/tokens", {200: TokenDataList}))

    def create_token(
        self,
        *,
        name: str,
        role: Literal["viewer", "editor", "admin"],
        scopes: Sequence[str] | UnsetType = UNSET,
        cluster: str | UnsetType | None = UNSET,
        topic_prefix: str | UnsetType = UNSET,
        expires_in_days: int | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> TokenData:
        """Create an API token. `token`, its secret, is in this answer only."""
        return self._send(
            Call[TokenData](
                "POST",
                "/v3/tokens",
                {200: TokenData, 201: TokenData},
                query={"validate_only": validate_only},
                body={
                    "name": name,
                    "role": role,
                    "scopes": scopes,
                    "cluster": cluster,
                    "topic_prefix": topic_prefix,
                    "expires_in_days": expires_in_days,
                },
            )
        )

    def revoke_token(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Revoke an API token. It cannot be restored."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/tokens/{name}",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def list_audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        result: str | None = None,
        cluster: str | None = None,
        before_id: int | None = None,
        page_size: int | None = None,
    ) -> Pages[AuditEventDataList, AuditEventData]:
        """List logins, denials and changes in all clusters, newest first."""
        return Pages(
            self._send,
            Call[AuditEventDataList](
                "GET",
                "/v3/audit",
                {200: AuditEventDataList},
                query={
                    "actor": actor,
                    "action": action,
                    "resource": resource,
                    "result": result,
                    "cluster": cluster,
                    "before_id": before_id,
                    "page_size": page_size,
                },
            ),
        )
