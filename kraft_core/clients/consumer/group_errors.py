"""Errors of group membership and of committed offsets that the application sees.

    CommitFailed             the member is not part of the group's generation any more; its partitions have new owners
    RetriableCommitFailed    an attempt failed; committing again may succeed
    RebalanceInProgress      commit again after the next poll, which completes the rebalance
    FencedInstanceId         another consumer uses the same group.instance.id
    GroupAuthorizationFailed, TopicAuthorizationFailed
    RebalanceListenerFailed  the application's own code failed

Source: the exceptions of the same names in Kafka 4.3.1.
"""
# ruff: noqa: N818  Kafka's own names of errors have no suffix

from collections.abc import Collection

from kraft_core.protocol.errors import ErrorCode, KafkaError


class CommitFailed(KafkaError):
    """The commit cannot succeed: the group has given this member's partitions to other members."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_MEMBER_ID,
            text
            or "the offsets are not committed: the group has rebalanced and assigned the partitions to other members. "
            "Poll within max.poll.interval.ms, raise it, or lower max.poll.records.",
        )


class RetriableCommitFailed(KafkaError):
    """A commit of one attempt failed for a cause that may pass; `cause` is the broker's or the connection's error."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"the offsets are not committed: {cause.message} Committing again may succeed.")
        self.cause = cause

    @property
    def retriable(self) -> bool:
        """Always true."""
        return True


class RebalanceInProgress(KafkaError):
    """The member takes part in a rebalance; poll, then commit again."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "the offsets are not committed: the group is rebalancing. Poll to complete it, then commit again.",
        )


class FencedInstanceId(KafkaError):
    """Another consumer with the same group.instance.id has taken this member's place."""

    def __init__(self, group_instance_id: str | None) -> None:
        super().__init__(
            ErrorCode.FENCED_INSTANCE_ID,
            f"another consumer uses the group.instance.id '{group_instance_id}': each needs one of its own",
        )


class GroupAuthorizationFailed(KafkaError):
    """The principal may not read the group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"not authorized to access the group '{group_id}'")
        self.group_id = group_id


class TopicAuthorizationFailed(KafkaError):
    """The principal may not read these topics."""

    def __init__(self, topics: Collection[str]) -> None:
        names = ", ".join(sorted(topics)[:10]) + (" and more" if len(topics) > 10 else "")
        super().__init__(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"not authorized to access the topics: {names}")
        self.topics = frozenset(topics)


class RebalanceListenerFailed(KafkaError):
    """The application's rebalance listener or assignor raised an error, which is the `__cause__`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"the rebalance listener failed: {cause!r}")
