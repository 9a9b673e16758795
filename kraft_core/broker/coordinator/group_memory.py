"""The memory that groups hold, and its limits.

A member sends the metadata of its protocols and has ids that contain its client's name, and each rebalance sends all
metadata to the group's leader, so a few large JoinGroups could exhaust a broker. Kafka bounds the number of members
(`group.max.size`) and the size of a group's record (`max.message.bytes` of __consumer_offsets); these limits bound the
rest.
"""

from collections.abc import Iterable
from typing import Final

from kraft_core.broker.coordinator.classic_group import ClassicGroup, Member
from kraft_core.protocol.errors import ErrorCode, KafkaError

MEMBER_BYTES_MAX: Final = 1024 * 1024
"""Upper bound of the names and metadata of one member's protocols; a group's record could not contain more."""
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
"""Upper bound of one group: members, pending member ids and assignments."""
GROUP_MEMBERS_MAX: Final = 10_000
"""Upper bound of the members and pending member ids of one group; `group.max.size` may be less."""
GROUPS_BYTES_MAX: Final = 128 * 1024 * 1024
"""Upper bound of all groups of a broker."""
ADDRESS_BYTES_MAX: Final = GROUPS_BYTES_MAX // 4
"""Upper bound of the clients at one address: members, pending member ids and groups that they created."""

_GROUP_BYTES: Final = 1024
_MEMBER_BYTES: Final = 1024
_PENDING_BYTES: Final = 256


def protocols_bytes(protocols: Iterable[tuple[str, bytes]]) -> int:
    """Return the size of a member's protocols in bytes."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def _member_bytes(member: Member) -> int:
    texts = 2 * len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id)
    return _MEMBER_BYTES + texts + protocols_bytes(member.protocols) + len(member.assignment)


def bytes_by_address(group: ClassicGroup) -> dict[str, int]:
    """Return the size of a group by the address of the clients that use it; "" for an unknown address."""
    sizes = {group.client_host: _GROUP_BYTES + 2 * len(group.group_id)}
    for member_id, pending in group.pending_members.items():
        sizes[pending.client_host] = sizes.get(pending.client_host, 0) + _PENDING_BYTES + len(member_id)
    for member in group.members.values():
        sizes[member.client_host] = sizes.get(member.client_host, 0) + _member_bytes(member)
    return sizes


class GroupMemory:
    """The sizes of all groups. Call `account` after each change of a group and `forget` after its removal."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.by_address: dict[str, int] = {}
        self._by_group: dict[str, dict[str, int]] = {}

    def account(self, group: ClassicGroup) -> None:
        """Measure a group again."""
        self.forget(group.group_id)
        sizes = self._by_group[group.group_id] = bytes_by_address(group)
        for address, size in sizes.items():
            self.held_bytes += size
            self.by_address[address] = self.by_address.get(address, 0) + size

    def forget(self, group_id: str) -> None:
        """Subtract a group that no longer exists."""
        for address, size in self._by_group.pop(group_id, {}).items():
            self.held_bytes -= size
            self.by_address[address] -= size
            if not self.by_address[address]:
                del self.by_address[address]

    def check_new_group(self, group_id: str, address: str) -> None:
        """Check that there is room for a group of a client at this address.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, after which clients try again.
        """
        self._check_room(_GROUP_BYTES + 2 * len(group_id), address)

    def check_join(
        self,
        group: ClassicGroup,
        member_id: str,
        address: str,
        client_name: str,
        protocols: Iterable[tuple[str, bytes]],
    ) -> None:
        """Check that a member with these protocols fits; `member_id` is "" for a new one, named after `client_name`.

        A known member counts for the address that it first joined from. Raises KafkaError GROUP_MAX_SIZE_REACHED for
        the member and the group, COORDINATOR_NOT_AVAILABLE for the address and the broker.
        """
        asked = protocols_bytes(protocols)
        if asked > MEMBER_BYTES_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The member's protocols have {asked} bytes; {MEMBER_BYTES_MAX} are allowed.",
            )
        known = group.members.get(member_id)
        more = asked - protocols_bytes(known.protocols) if known else asked + _MEMBER_BYTES + 3 * len(client_name)
        held = sum(bytes_by_address(group).values())
        if more > 0 and held + more > GROUP_BYTES_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group would hold {held + more} bytes; {GROUP_BYTES_MAX} are allowed.",
            )
        self._check_room(more, known.client_host if known else address)

    def _check_room(self, more: int, address: str) -> None:
        if more > 0 and self.held_bytes + more > GROUPS_BYTES_MAX:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"The groups of this broker would hold {self.held_bytes + more} bytes; {GROUPS_BYTES_MAX} are allowed.",
            )
        held = self.by_address.get(address, 0)
        if more > 0 and address and held + more > ADDRESS_BYTES_MAX:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"The clients at {address.removeprefix('/')} would hold {held + more} bytes in groups; "
                f"{ADDRESS_BYTES_MAX} are allowed.",
            )
