"""Changes of groups: offsets set or deleted, static members removed, groups deleted; and what each would change."""

from collections.abc import Collection, Mapping, Sequence

from app.cluster.broker_clients import BrokerClients
from app.cluster.groups import Groups
from kraft_core.clients.admin.groups import GroupDescription, MemberDescription
from kraft_core.clients.admin.offset_reset import OffsetReset, Scenario, apply_reset, require_inactive
from kraft_core.clients.admin.reset_request import Named, prepare_reset
from kraft_core.clients.admin.share_groups import SHARE, ShareOffset
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError

Failures = dict[TopicPartition, KafkaError]


class GroupAdmin:
    """Changes of groups. All raise KafkaError, also GROUP_ID_NOT_FOUND and NON_EMPTY_GROUP, which names the members."""

    def __init__(self, clients: BrokerClients, groups: Groups) -> None:
        self._clients = clients
        self._groups = groups

    async def plan_reset(self, group_id: str, named: Named | None, scenario: Scenario) -> list[OffsetReset]:
        """Return what `reset` would commit. See prepare_reset; a shift without a committed offset is refused too."""
        try:
            return (await prepare_reset(self._clients.admin(), group_id, named, scenario)).offsets
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    async def reset(self, group_id: str, plan: Sequence[OffsetReset]) -> Failures:
        """Set the offsets of a plan. Returns the partitions that were refused."""
        admin = self._clients.admin()
        is_share = await self._is_share(group_id)
        try:
            return await apply_reset(admin, group_id, plan, is_share=is_share)
        finally:
            self._groups.forget(group_id)

    async def _is_share(self, group_id: str) -> bool:
        described = (await self._clients.admin().describe_groups([group_id]))[group_id]
        return not isinstance(described, KafkaError) and described.type == SHARE

    async def check_empty(self, group_id: str) -> GroupDescription:
        """Return a group without members."""
        self._groups.require_any()
        described = (await self._clients.admin().describe_groups([group_id])).get_or_raise(group_id)
        require_inactive(group_id, described)
        return described

    async def check_all_empty(self, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
        """Return why each group cannot be deleted, None for one without members. Asks each coordinator once."""
        self._groups.require_any()
        described = await self._clients.admin().describe_groups(group_ids)
        return {group_id: _why_active(group_id, described[group_id]) for group_id in group_ids}

    async def delete(self, group_id: str, *, validate_only: bool = False) -> None:
        """Delete a group without members and all its committed offsets."""
        await self.check_empty(group_id)
        if validate_only:
            return
        try:
            (await self._clients.admin().delete_consumer_groups([group_id])).get_or_raise(group_id)
        finally:
            self._groups.forget(group_id)

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group for one topic. Raises UNKNOWN_TOPIC_OR_PARTITION without any."""
        self._groups.require_any()
        admin = self._clients.admin()
        offsets: Mapping[TopicPartition, OffsetAndMetadata | ShareOffset | KafkaError | None]
        if await self._is_share(group_id):
            offsets = (await admin.list_share_group_offsets([group_id])).get_or_raise(group_id)
        else:
            offsets = (await admin.list_consumer_group_offsets({group_id: None})).get_or_raise(group_id)
        found = {
            partition: each.start_offset if isinstance(each, ShareOffset) else each.offset
            for partition, each in sorted(offsets.items(), key=lambda each: each[0])
            if partition.topic == topic and isinstance(each, OffsetAndMetadata | ShareOffset)
        }
        if not found:
            text = f"Group '{group_id}' has no committed offsets of topic '{topic}'."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return found

    async def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> Failures:
        """Delete committed offsets. Returns the partitions that were refused: a member subscribes to the topic.

        A share group's offsets are those of whole topics, and it must have no members.
        """
        admin = self._clients.admin()
        try:
            if await self._is_share(group_id):
                topics = {each.topic for each in partitions}
                failed = (await admin.delete_share_group_offsets(group_id, topics)).failed
                return {each: failed[each.topic] for each in partitions if each.topic in failed}
            return (await admin.delete_consumer_group_offsets(group_id, partitions)).failed
        finally:
            self._groups.forget(group_id)

    async def static_member(self, group_id: str, instance_id: str) -> MemberDescription:
        """Return a static member by its instance id. Raises UNKNOWN_MEMBER_ID."""
        self._groups.require_any()
        described = (await self._clients.admin().describe_consumer_groups([group_id])).get_or_raise(group_id)
        found = next((each for each in described.members if each.group_instance_id == instance_id), None)
        if found is None:
            text = f"Group '{group_id}' has no static member '{instance_id}'."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return found

    async def remove_member(self, group_id: str, instance_id: str, reason: str) -> None:
        """Remove a static member; a consumer that still runs is fenced."""
        try:
            removed = await self._clients.admin().remove_members_from_consumer_group(
                group_id, [instance_id], reason=reason
            )
            removed.get_or_raise(instance_id)
        finally:
            self._groups.forget(group_id)


def _why_active(group_id: str, described: GroupDescription | KafkaError) -> KafkaError | None:
    if isinstance(described, KafkaError):
        return described
    try:
        require_inactive(group_id, described)
    except KafkaError as error:
        return error
    return None
