"""The quota on changes of topics (KIP-599): partitions that a client may create or delete in a second.

Each client has a bucket of tokens, one for a partition. It fills at the rate of the client's quota and holds as much as
comes in `window_count` windows (controller.quota.window.num and .size.seconds). A request takes what it changes and may
leave the bucket in debt; while it is in debt the next one is refused (new versions) or made and slowed (older ones).
What is in the buckets is forgotten when another controller takes over, as in Kafka.

Which quota is a client's: the most particular of user and client id, user and default client, user, default user and
client id, default user and default client, default user, client id, default client. Clients of a user share one bucket
when the quota is the user's.

Source: ControllerMutationQuotaManager, ClientQuotaManager.DefaultQuotaCallback, TokenBucket, Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraft_core.controller.access.client_quota_control_manager import CLIENT_ID, CONTROLLER_MUTATION_RATE, USER
from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kraft_core.controller.access.client_quota_control_manager import Entity
    from kraft_core.image.metadata_image import MetadataImage

BucketKey = tuple[str | None, str | None]
"""Whose bucket: (user, client id), None where it is shared by all."""

_SECOND_MS: Final = 1000
_BUCKETS_MAX: Final = 10_000
"""When there are more, those that are full again are dropped: a new one would be the same."""


@dataclass(slots=True)
class TokenBucket:
    """Tokens left, below 0 when in debt, and when they were counted; what it holds at most. Source: TokenBucket."""

    tokens: float
    counted_ms: int
    most: float

    def refill(self, rate_per_s: float, most: float, now_ms: int) -> None:
        """Add what has come since the last count."""
        self.most = most
        self.tokens = min(most, self.tokens + rate_per_s * (now_ms - self.counted_ms) / _SECOND_MS)
        self.counted_ms = now_ms

    def debt_ms(self, rate_per_s: float) -> int:
        """Say how long it takes until it is out of debt."""
        return round(max(0.0, -self.tokens) / rate_per_s * _SECOND_MS)


class ControllerMutationQuotaManager:
    """The buckets of all clients."""

    def __init__(self, window_count: int, window_s: int) -> None:
        self._burst_s = window_count * window_s
        self._buckets: dict[BucketKey, TokenBucket] = {}

    def quota_for(
        self, image: MetadataImage, principal: str, client_id: str, now_ms: int, *, is_strict: bool
    ) -> ControllerMutationQuota | None:
        """Return the account of one request, None for a client without quota.

        `is_strict`: the request's version knows THROTTLING_QUOTA_EXCEEDED.
        """
        found = _quota_of(image, principal.partition(":")[2], client_id)
        if found is None:
            return None
        key, rate_per_s = found
        most = rate_per_s * self._burst_s
        bucket = self._buckets.get(key)
        if bucket is None:
            self._forget_full_ones(now_ms)
            bucket = self._buckets[key] = TokenBucket(most, now_ms, most)
        bucket.refill(rate_per_s, most, now_ms)
        return ControllerMutationQuota(bucket, rate_per_s, is_strict=is_strict)

    def _forget_full_ones(self, now_ms: int) -> None:
        if len(self._buckets) >= _BUCKETS_MAX:
            self._buckets = {
                key: bucket
                for key, bucket in self._buckets.items()
                if bucket.tokens + bucket.most * (now_ms - bucket.counted_ms) / (self._burst_s * _SECOND_MS)
                < bucket.most
            }


class ControllerMutationQuota:
    """The account of one request."""

    __slots__ = ("_bucket", "_is_strict", "_rate_per_s", "throttle_time_ms")

    def __init__(self, bucket: TokenBucket, rate_per_s: float, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._rate_per_s = rate_per_s
        self._is_strict = is_strict
        self.throttle_time_ms = 0

    def record(self, partitions: int) -> None:
        """Take tokens. Raises KafkaError THROTTLING_QUOTA_EXCEEDED, taking none, when strict and in debt."""
        if self._is_strict and self._bucket.tokens < 0:
            self.throttle_time_ms = self._bucket.debt_ms(self._rate_per_s)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.tokens -= partitions
        if not self._is_strict:
            self.throttle_time_ms = self._bucket.debt_ms(self._rate_per_s)


def _quota_of(image: MetadataImage, user: str, client_id: str) -> tuple[BucketKey, float] | None:
    """Return the bucket that a client takes from and its rate; None without quota."""
    quotas = image.client_quotas
    if not len(quotas):
        return None
    of_user, of_client = (USER, user), (CLIENT_ID, client_id)
    of_any_user, of_any_client = (USER, None), (CLIENT_ID, None)
    candidates: tuple[tuple[Entity, BucketKey], ...] = (
        ((of_client, of_user), (user, client_id)),
        ((of_any_client, of_user), (user, client_id)),
        ((of_user,), (user, None)),
        ((of_client, of_any_user), (user, client_id)),
        ((of_any_client, of_any_user), (user, client_id)),
        ((of_any_user,), (user, None)),
        ((of_client,), (None, client_id)),
        ((of_any_client,), (None, client_id)),
    )
    for entity, key in candidates:
        rates = quotas.get(entity)
        if rates is not None and CONTROLLER_MUTATION_RATE in rates:
            return key, rates[CONTROLLER_MUTATION_RATE]
    return None
