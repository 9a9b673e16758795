"""Changes of broker registrations, each written to the audit."""

from app.actions.audited import Audited, Caller


class BrokerActions(Audited):
    """Unregisters brokers."""

    async def unregister(
        self, caller: Caller, broker_id: int, *, force: bool = False, validate_only: bool = False
    ) -> int | None:
        """Unregister a broker. Returns the offset, None for a dry run. Raises BrokerInUseError unless forced."""
        detail = {"force": force}
        async with self._audited(caller, "broker.unregister", f"broker/{broker_id}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.brokers.unregister(
                broker_id, force=force, validate_only=validate_only
            )
        return offset
