"""Several topics, groups or ACLs deleted in one call, with a result for each.

200 if all were deleted, 207 if some were not: they succeed and fail on their own, and each has an audit event. When
none has reached the cluster, the answer is the error of the first one.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.actions.each import for_each
from app.cluster.acls import acl_of, filter_of, words_of
from app.cluster.groups import check_group_id
from app.error_responses import NATIVE
from app.rest.idempotency import IdempotencyKeyHeader, once
from app.rest.item_results import REFUSALS, item_result, outcomes
from app.rest.responses import answer, checked, multi_status
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.deletions import (
    AclDeletionDataList,
    DeleteAclsBody,
    DeleteGroupsBody,
    DeleteTopicsBody,
    GroupDeletionDataList,
    TopicDeletionDataList,
)
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, check_topic_name
from app.services import Admin, GroupEditor, ServicesDep, TopicEditor
from kraft_core.image.acls_image import StandardAcl
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE], route_class=JsonRoute)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Deletion:
    """What the three requests have in common."""

    request: Request
    services: ServicesDep
    validate_only: DryRun
    idempotency_key: IdempotencyKeyHeader = None

    async def of_each(
        self,
        caller: Caller,
        kind: str,
        items: Sequence[Item],
        members_of: Callable[[Item], dict[str, Any]],
        delete: Callable[[Item], Awaitable[int | None]],
    ) -> Response:
        """Delete items, and return their results. Raises ConnectionError when none of them has reached the cluster."""

        async def work() -> Response:
            made = await for_each(items, delete, REFUSALS)
            failed = [each for each in made if isinstance(each, Exception)]
            if len(failed) == len(made) and all(isinstance(each, ConnectionError) for each in failed):
                raise failed[0]
            data = [item_result(members_of(item), each) for item, each in zip(items, made, strict=True)]
            body = checked({"kind": kind, "data": data}, validate_only=self.validate_only)
            offset = max((each for each in made if isinstance(each, int)), default=None)
            return multi_status(body, offset) if failed else answer(body, offset)

        key = None if self.validate_only else self.idempotency_key
        return await once(self.services.database, key, caller.principal.audit_name, self.request, work)


DeletionDep = Annotated[_Deletion, Depends()]


@router.post("/topics:delete", tags=["topics"], responses=outcomes(TopicDeletionDataList, "deleted"))
async def delete_topics(
    _view: NowViewDep, body: DeleteTopicsBody, caller: TopicEditor, deletion: DeletionDep
) -> Response:
    """Delete several topics and all their data."""
    names = [each.topic_name for each in body.data]
    refuse_repeated("Topic", names)

    async def delete(name: str) -> int | None:
        check_topic_name(name)
        return await deletion.services.actions.topics.delete(caller, name, validate_only=deletion.validate_only)

    return await deletion.of_each(caller, "KafkaTopicDeletionList", names, lambda name: {"topic_name": name}, delete)


@router.post("/consumer-groups:delete", tags=["consumer groups"], responses=outcomes(GroupDeletionDataList, "deleted"))
async def delete_groups(
    _view: NowViewDep, body: DeleteGroupsBody, caller: GroupEditor, deletion: DeletionDep
) -> Response:
    """Delete several groups without members, and all their committed offsets."""
    group_ids = [each.consumer_group_id for each in body.data]
    refuse_repeated("Consumer group", group_ids)

    async def delete(group_id: str) -> None:
        check_group_id(group_id)
        await deletion.services.actions.groups.delete(caller, group_id, validate_only=deletion.validate_only)

    return await deletion.of_each(
        caller, "KafkaConsumerGroupDeletionList", group_ids, lambda group_id: {"consumer_group_id": group_id}, delete
    )


@router.post("/acls:delete", tags=["acls"], responses=outcomes(AclDeletionDataList, "deleted"))
async def delete_exact_acls(_view: NowViewDep, body: DeleteAclsBody, caller: Admin, deletion: DeletionDep) -> Response:
    """Delete several ACLs, each named by all its members."""
    acls = [acl_of(each.model_dump()) for each in body.data]
    refuse_repeated("ACL", map(str, acls))

    async def delete(acl: StandardAcl) -> int | None:
        offset, deleted = await deletion.services.actions.acls.delete(
            caller, filter_of(acl), validate_only=deletion.validate_only
        )
        if not deleted:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "There is no such ACL.")
        return offset

    return await deletion.of_each(caller, "KafkaAclDeletionList", acls, words_of, delete)
