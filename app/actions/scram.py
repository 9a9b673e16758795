"""Changes of SCRAM users, each written to the audit."""

from app.actions.audited import Audited, Caller
from kraft_core.image.scram_mechanism import ScramMechanism


class ScramActions(Audited):
    """Sets and deletes SCRAM credentials."""

    async def put(
        self,
        caller: Caller,
        name: str,
        mechanism: ScramMechanism,
        password: str,
        iterations: int,
        *,
        validate_only: bool = False,
    ) -> int | None:
        """Set a SCRAM user's password. Returns the offset, None for a dry run. The password is not audited."""
        detail = {"mechanism": mechanism.name, "iterations": iterations}
        async with self._audited(caller, "scram.put", f"scram-user/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.scram.put(
                name, mechanism, password, iterations, validate_only=validate_only
            )
        return offset

    async def delete(
        self, caller: Caller, name: str, mechanism: ScramMechanism, *, validate_only: bool = False
    ) -> int | None:
        """Delete a SCRAM user's credential. Returns the offset, None for a dry run."""
        detail = {"mechanism": mechanism.name}
        async with self._audited(caller, "scram.delete", f"scram-user/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.scram.delete(
                name, mechanism, validate_only=validate_only
            )
        return offset
