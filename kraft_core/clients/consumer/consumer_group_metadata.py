"""Who a consumer is in its group, for offsets committed by a transaction. Source: ConsumerGroupMetadata (KIP-447)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The group, and the member's generation (classic) or epoch (KIP-848); -1 and "" outside a generation."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
