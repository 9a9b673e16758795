"""Changes of delegation tokens, each written to the audit."""

from typing import Any

from app.actions.audited import Audited, Caller
from app.cluster.delegation_tokens import CreatedToken


class DelegationTokenActions(Audited):
    """Creates, renews and expires delegation tokens."""

    async def create(
        self, caller: Caller, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int
    ) -> CreatedToken:
        """Create a delegation token."""
        detail: dict[str, Any] = {"owner": owner, "renewers": list(renewers), "max_lifetime_ms": max_lifetime_ms}
        async with self._audited(caller, "delegation-token.create", "delegation-token/*", detail) as outcome:
            made = await self._cluster.admin.delegation_tokens.create(owner, renewers, max_lifetime_ms)
            outcome.offset = made.offset
            detail |= {"owner": made.token.owner, "token_id": made.token.token_id}
        return made

    async def check(
        self, *, hmac: bytes | None = None, owner: str | None = None, renewers: tuple[str, ...] = ()
    ) -> None:
        """Validate a change of delegation tokens without making it. See DelegationTokenAdmin.check."""
        await self._cluster.admin.delegation_tokens.check(hmac, owner, renewers)

    async def renew(self, caller: Caller, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Extend a token's expiry. Returns the offset and the new expiry in ms since 1970."""
        detail: dict[str, Any] = {"period_ms": period_ms}
        async with self._audited(caller, "delegation-token.renew", "delegation-token/*", detail) as outcome:
            outcome.offset, detail["expiry_timestamp"] = end = await self._cluster.admin.delegation_tokens.renew(
                hmac, period_ms
            )
        return end

    async def expire(self, caller: Caller, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Set a token's expiry. Returns the offset and the new expiry in ms since 1970."""
        detail: dict[str, Any] = {"period_ms": period_ms}
        async with self._audited(caller, "delegation-token.expire", "delegation-token/*", detail) as outcome:
            outcome.offset, detail["expiry_timestamp"] = end = await self._cluster.admin.delegation_tokens.expire(
                hmac, period_ms
            )
        return end
