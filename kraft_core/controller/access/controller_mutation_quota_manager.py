"""The controller mutation quota (KIP-599): partitions that a client may create or delete per second.

## Token buckets
A bucket has one token per partition. It fills at the rate of the quota, up to what arrives in `window_count` windows
(controller.quota.window.num and .size.seconds). A request takes its tokens and may leave the bucket negative; until it
is refilled, further requests are refused (strict versions) or throttled (older ones). A new controller starts with full
buckets, as in Kafka.

## Precedence of quotas
The most specific of: user and client id, user and default client, user, default user and client id, default user and
default client, default user, client id, default client. The clients of a user share the bucket of a user quota.

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
"""(user, client id) of a bucket; None where it is shared by all."""

_SECOND_MS: Final = 1000
_BUCKETS_MAX: Final = 10_000
"""Above this number, full buckets are dropped: a new bucket is full too."""


@dataclass(slots=True)
class TokenBucket:
    """Tokens at the time `counted_ms`, negative when overdrawn, and the capacity `most`. Source: TokenBucket."""

    tokens: float
    counted_ms: int
    most: float

    def refill(self, rate_per_s: float, most: float, now_ms: int) -> None:
        """Add the tokens that have arrived since `counted_ms`."""
        self.most = most
        self.tokens = min(most, self.tokens + rate_per_s * (now_ms - self.counted_ms) / _SECOND_MS)
        self.counted_ms = now_ms

    def debt_ms(self, rate_per_s: float) -> int:
        """Return the time in ms until the bucket is no longer negative."""
        return round(max(0.0, -self.tokens) / rate_per_s * _SECOND_MS)


class ControllerMutationQuotaManager:
    """The token buckets of all clients."""

    def __init__(self, window_count: int, window_s: int) -> None:
        self._burst_s = window_count * window_s
        self._buckets: dict[BucketKey, TokenBucket] = {}

    def quota_for(
        self, image: MetadataImage, principal: str, client_id: str, now_ms: int, *, is_strict: bool
    ) -> ControllerMutationQuota | None:
        """Return the quota for one request, None for a client without one.

        `is_strict`: the request's version supports THROTTLING_QUOTA_EXCEEDED.
        """
        found = _quota_of(image, principal.partition(":")[2], client_id)
        if found is None:
            return None
        key, rate_per_s = found
        most = rate_per_s * self._burst_s
        bucket = self._buckets.get(key)
        if bucket is None:
            self._drop_full_buckets(now_ms)
            bucket = self._buckets[key] = TokenBucket(most, now_ms, most)
        bucket.refill(rate_per_s, most, now_ms)
        return ControllerMutationQuota(bucket, rate_per_s, is_strict=is_strict)

    def _drop_full_buckets(self, now_ms: int) -> None:
        if len(self._buckets) >= _BUCKETS_MAX:
            self._buckets = {
                key: bucket
                for key, bucket in self._buckets.items()
                if bucket.tokens + bucket.most * (now_ms - bucket.counted_ms) / (self._burst_s * _SECOND_MS)
                < bucket.most
            }


class ControllerMutationQuota:
    """The quota of one request's sender; `throttle_time_ms` is for the response."""

    __slots__ = ("_bucket", "_is_strict", "_rate_per_s", "throttle_time_ms")

    def __init__(self, bucket: TokenBucket, rate_per_s: float, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._rate_per_s = rate_per_s
        self._is_strict = is_strict
        self.throttle_time_ms = 0

    def record(self, partitions: int) -> None:
        """Take tokens. If strict and already negative, take none and raise KafkaError THROTTLING_QUOTA_EXCEEDED."""
        if self._is_strict and self._bucket.tokens < 0:
            self.throttle_time_ms = self._bucket.debt_ms(self._rate_per_s)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.tokens -= partitions
        if not self._is_strict:
            self.throttle_time_ms = self._bucket.debt_ms(self._rate_per_s)


def _quota_of(image: MetadataImage, user: str, client_id: str) -> tuple[BucketKey, float] | None:
    """Return the client's bucket and rate, None without quota."""
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
