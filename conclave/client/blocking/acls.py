"""Methods about acls. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.acls import (
    AclData,
    AclDataList,
    AclDeletionDataList,
    AclEntry,
    AclImportData,
    DeletedAclsData,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class AclsMethods(Methods):
    """Methods about acls."""

    def list_acls(
        self,
        *,
        at_offset: int | None = None,
        at: str | None = None,
        resource_type: str | None = None,
        resource_name: str | None = None,
        pattern_type: str | None = None,
        principal: str | None = None,
        host: str | None = None,
        operation: str | None = None,
        permission: str | None = None,
        page_size: int | None = None,
    ) -> Pages[AclDataList, AclData]:
        """List the ACLs that match the filter."""
        return Pages(
            self._send,
            Call[AclDataList](
                "GET",
                "/v3/clusters/{cluster_id}/acls",
                {200: AclDataList},
                query={
                    "at_offset": at_offset,
                    "at": at,
                    "resource_type": resource_type,
                    "resource_name": resource_name,
                    "pattern_type": pattern_type,
                    "principal": principal,
                    "host": host,
                    "operation": operation,
                    "permission": permission,
                    "page_size": page_size,
                },
                waits_for_offset=True,
            ),
        )

    def create_acl(
        self,
        *,
        resource_type: str,
        resource_name: str,
        pattern_type: str,
        principal: str,
        operation: str,
        permission: str,
        host: str | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> DryRunData | None:
        """Create one ACL. An ACL that exists already is not an error."""
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/acls",
                {200: DryRunData, 201: None},
                query={"validate_only": validate_only},
                body={
                    "resource_type": resource_type,
                    "resource_name": resource_name,
                    "pattern_type": pattern_type,
                    "principal": principal,
                    "host": host,
                    "operation": operation,
                    "permission": permission,
                },
            )
        )

    def delete_acls(
        self,
        *,
        resource_type: str | None = None,
        resource_name: str | None = None,
        pattern_type: str | None = None,
        principal: str | None = None,
        host: str | None = None,
        operation: str | None = None,
        permission: str | None = None,
        validate_only: bool = False,
    ) -> DeletedAclsData:
        """Delete every ACL that matches the filter, of which four members are required as a safeguard."""
        return self._send(
            Call[DeletedAclsData](
                "DELETE",
                "/v3/clusters/{cluster_id}/acls",
                {200: DeletedAclsData},
                query={
                    "resource_type": resource_type,
                    "resource_name": resource_name,
                    "pattern_type": pattern_type,
                    "principal": principal,
                    "host": host,
                    "operation": operation,
                    "permission": permission,
                    "validate_only": validate_only,
                },
            )
        )

    def create_acls(self, *, data: Sequence[AclEntry], validate_only: bool = False) -> DryRunData | None:
        """Create several ACLs."""
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/acls:batch",
                {200: DryRunData, 204: None},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def create_application_acls(
        self,
        *,
        preset: Literal["producer", "consumer", "streams", "connect"],
        principal: str,
        host: str | UnsetType = UNSET,
        read_topics: Sequence[str] | UnsetType = UNSET,
        write_topics: Sequence[str] | UnsetType = UNSET,
        prefixed: bool | UnsetType = UNSET,
        group: str | UnsetType = UNSET,
        transactional_id: str | UnsetType = UNSET,
        idempotent: bool | UnsetType = UNSET,
        application_id: str | UnsetType = UNSET,
        exactly_once: bool | UnsetType = UNSET,
        internal_topics: Sequence[str] | UnsetType = UNSET,
        connectors: Sequence[str] | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> DryRunData | None:
        """Create the ACLs of a producer, a consumer, Kafka Streams or Kafka Connect. Those that exist stay."""
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/acls:application",
                {200: DryRunData, 204: None},
                query={"validate_only": validate_only},
                body={
                    "preset": preset,
                    "principal": principal,
                    "host": host,
                    "read_topics": read_topics,
                    "write_topics": write_topics,
                    "prefixed": prefixed,
                    "group": group,
                    "transactional_id": transactional_id,
                    "idempotent": idempotent,
                    "application_id": application_id,
                    "exactly_once": exactly_once,
                    "internal_topics": internal_topics,
                    "connectors": connectors,
                },
            )
        )

    def import_acls(
        self, *, data: Sequence[AclEntry], remove_others: bool | UnsetType = UNSET, validate_only: bool = False
    ) -> AclImportData:
        """Create the listed ACLs that do not exist and, if wanted, delete all others."""
        return self._send(
            Call[AclImportData](
                "POST",
                "/v3/clusters/{cluster_id}/acls:import",
                {200: AclImportData, 207: AclImportData},
                query={"validate_only": validate_only},
                body={"data": data, "remove_others": remove_others},
            )
        )

    def delete_exact_acls(
        self, *, data: Sequence[AclEntry], validate_only: bool = False, idempotency_key: str | None = None
    ) -> AclDeletionDataList:
        """Delete several ACLs, each named by all its members."""
        return self._send(
            Call[AclDeletionDataList](
                "POST",
                "/v3/clusters/{cluster_id}/acls:delete",
                {200: AclDeletionDataList, 207: AclDeletionDataList},
                query={"validate_only": validate_only},
                headers={"Idempotency-Key": idempotency_key},
                body={"data": data},
            )
        )
