"""Changes of SCRAM credentials (KIP-554). Only the stored key and the server key of a password are recorded.

Source: ScramControlManager, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS_BY_TYPE
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseAlterUserScramCredentialsResult,
)
from kraft_core.protocol.metadata_records import RemoveUserScramCredentialRecord
from kraft_core.protocol.metadata_version import is_scram_supported

if TYPE_CHECKING:
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsRequestScramCredentialUpsertion,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

    _Change = (
        AlterUserScramCredentialsRequestScramCredentialDeletion
        | AlterUserScramCredentialsRequestScramCredentialUpsertion
    )

_TWICE: Final = "A user credential cannot be altered twice in the same request"


def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Set and delete credentials in one atomic batch; users succeed or fail independently.

    Errors of a user: DUPLICATE_RESOURCE if the request names it twice, with any mechanism; UNSUPPORTED_VERSION below
    metadata.version 11; UNACCEPTABLE_CREDENTIAL for an empty name or iterations outside 4,096 to 16,384;
    UNSUPPORTED_SASL_MECHANISM; RESOURCE_NOT_FOUND if the credential to delete does not exist.
    """
    accepted: dict[str, MetadataRecord] = {}
    errors: dict[str, KafkaError] = {}
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in errors:
            continue
        if accepted.pop(change.name, None) is not None:
            errors[change.name] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        try:
            _check(image, change)
            accepted[change.name] = _record(image, change)
        except KafkaError as error:
            errors[change.name] = error
    result = AlterUserScramCredentialsResponseAlterUserScramCredentialsResult
    results = [result(user=name, error_message=None) for name in accepted]
    results += [result(user=name, error_code=error.code, error_message=error.message) for name, error in errors.items()]
    response = AlterUserScramCredentialsResponse(results=tuple(results))
    return ControllerResult.atomic_of(list(accepted.values()), response)


def _check(image: MetadataImage, change: _Change) -> None:
    if not is_scram_supported(image.features.metadata_version or 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in SCRAM_MECHANISMS_BY_TYPE:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _record(image: MetadataImage, change: _Change) -> MetadataRecord:
    if isinstance(change, AlterUserScramCredentialsRequestScramCredentialDeletion):
        users = image.scram.get(change.mechanism)
        if users is None or change.name not in users:
            message = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    mechanism = SCRAM_MECHANISMS_BY_TYPE[change.mechanism]
    return mechanism.record(change.name, change.salt, change.salted_password, change.iterations)
