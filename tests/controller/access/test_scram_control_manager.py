"""Changes of SCRAM credentials."""

import hashlib
import hmac
from typing import Any

import pytest

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tests.controller.active_controller import ActiveController

SHA_256, SHA_512 = 1, 2
SALTED = bytes(range(32))


def upsert(name: str = "alice", **fields: Any) -> m.AlterUserScramCredentialsRequestScramCredentialUpsertion:
    defaults = {"mechanism": SHA_256, "iterations": 4096, "salt": b"salt", "salted_password": SALTED}
    return m.AlterUserScramCredentialsRequestScramCredentialUpsertion(name=name, **{**defaults, **fields})


def delete(name: str = "alice", mechanism: int = SHA_256) -> m.AlterUserScramCredentialsRequestScramCredentialDeletion:
    return m.AlterUserScramCredentialsRequestScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(active: ActiveController, *changes: Any) -> dict[str, tuple[int, str | None]]:
    deletions = tuple(each for each in changes if not hasattr(each, "salt"))
    upsertions = tuple(each for each in changes if hasattr(each, "salt"))
    answer = active.ask(m.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))
    assert len({result.user for result in answer.results}) == len(answer.results)
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


@pytest.fixture
def active() -> ActiveController:
    return ActiveController()


def test_the_log_holds_the_keys_of_rfc_5802_and_not_the_salted_password(active: ActiveController) -> None:
    """ScramControlManagerTest; a reader of the log must not be able to authenticate."""
    assert alter(active, upsert(iterations=8192)) == {"alice": (0, None)}
    (record,) = [each for each in active.log() if isinstance(each, UserScramCredentialRecord)]
    client_key = hmac.digest(SALTED, b"Client Key", "sha256")
    assert record == UserScramCredentialRecord(
        name="alice",
        mechanism=SHA_256,
        salt=b"salt",
        stored_key=hashlib.sha256(client_key).digest(),
        server_key=hmac.digest(SALTED, b"Server Key", "sha256"),
        iterations=8192,
    )
    assert not any(SALTED in raw for raw in active.writer.batches)


def test_a_user_has_both_mechanisms_and_each_is_deleted_alone(active: ActiveController) -> None:
    alter(active, upsert())
    alter(active, upsert(mechanism=SHA_512))
    assert alter(active, delete()) == {"alice": (0, None)}
    left = {
        mechanism: users["alice"].iterations for mechanism, users in active.committed.scram.items() if "alice" in users
    }
    assert left == {SHA_512: 4096}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (upsert(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (delete(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            delete(),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_a_bad_change_is_refused_and_the_others_of_the_request_are_made(
    active: ActiveController, change: Any, code: int, message: str
) -> None:
    assert alter(active, change, upsert("bob", iterations=16384)) == {change.name: (code, message), "bob": (0, None)}
    assert set(active.committed.scram[SHA_256]) == {"bob"}


@pytest.mark.parametrize(
    "changes",
    [
        (upsert(), upsert()),
        (upsert(), upsert(mechanism=SHA_512)),
        (delete("held"), upsert("held")),
        (delete("held"), delete("held")),
        (upsert(), upsert(), upsert()),
    ],
)
def test_a_repeated_user_is_not_altered(active: ActiveController, changes: tuple[Any, ...]) -> None:
    """For any mechanism; a third occurrence changes nothing."""
    alter(active, upsert("held"))
    before = active.committed.scram
    name = changes[0].name
    expected = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    assert alter(active, *changes) == {name: expected}
    assert active.committed.scram == before


def test_the_first_error_of_a_user_is_kept(active: ActiveController) -> None:
    assert alter(active, delete(), upsert())["alice"][0] == ErrorCode.RESOURCE_NOT_FOUND
    assert alter(active, upsert(iterations=1), upsert())["alice"][0] == ErrorCode.UNACCEPTABLE_CREDENTIAL


def test_deletions_and_settings_of_a_request_are_one_batch(active: ActiveController) -> None:
    alter(active, upsert())
    batches = len(active.writer.batches)
    alter(active, delete(), upsert("bob"))
    assert len(active.writer.batches) == batches + 1
    assert [type(each) for each in active.log()[-2:]] == [RemoveUserScramCredentialRecord, UserScramCredentialRecord]


def test_scram_needs_metadata_version_11() -> None:
    active = ActiveController(bootstrap_features={"metadata.version": 10})
    refused = (ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    assert alter(active, upsert(""), delete()) == {"": refused, "alice": refused}
    active.writer.append([FeatureLevelRecord(name="metadata.version", feature_level=11)])
    active.commit()
    assert alter(active, upsert()) == {"alice": (0, None)}
