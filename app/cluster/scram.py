"""SCRAM users: credentials set and deleted through the active controller."""

from collections.abc import Callable

from app.cluster.changes import Changes, only, raise_for
from kraft_core.clients.admin.scram import (
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    alter_user_scram_credentials_request,
)
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import AlterUserScramCredentialsResponse
from kraft_core.protocol.metadata_records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class ScramAdmin(Changes):
    """Changes of SCRAM credentials. Passwords leave this process only salted and hashed."""

    async def put(
        self, name: str, mechanism: ScramMechanism, password: str, iterations: int, *, validate_only: bool = False
    ) -> int | None:
        """Set a user's password for one mechanism. Returns the offset, None when only validated.

        Raises KafkaError UNACCEPTABLE_CREDENTIAL for too few or too many iterations, UNSUPPORTED_VERSION below
        metadata.version 3.5-IV2.
        """
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:  # before hashing, which could take hours
            raise KafkaError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"iterations {iterations} is not between {MIN_ITERATIONS} and {MAX_ITERATIONS}.",
            )
        return await self._alter(
            UserScramCredentialUpsertion(name, mechanism, password, iterations),
            lambda record: isinstance(record, UserScramCredentialRecord) and record.name == name,
            validate_only=validate_only,
        )

    async def delete(self, name: str, mechanism: ScramMechanism, *, validate_only: bool = False) -> int | None:
        """Delete a user's credential for one mechanism. Returns the offset, None when only validated.

        Raises KafkaError RESOURCE_NOT_FOUND.
        """
        return await self._alter(
            UserScramCredentialDeletion(name, mechanism),
            lambda record: isinstance(record, RemoveUserScramCredentialRecord) and record.name == name,
            validate_only=validate_only,
        )

    async def _alter(
        self,
        alteration: UserScramCredentialAlteration,
        wanted: Callable[[MetadataRecord], bool],
        *,
        validate_only: bool,
    ) -> int | None:
        request = alter_user_scram_credentials_request((alteration,))
        before = self._history.newest_offset
        answer = await self._ask(request, AlterUserScramCredentialsResponse, dry_run=validate_only)
        result = only(answer.results)
        raise_for(result.error_code, result.error_message)
        return None if validate_only else await self._committed(before, wanted)
