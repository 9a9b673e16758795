"""SCRAM users through REST, compared with the image of the metadata log."""

import pytest

from app.rest.schemas.scram import ScramUserData, ScramUserDataList
from kraft_core.image.scram_mechanism import SCRAM_SHA_256
from tests.app.live import LiveWeb


def scram_users(web: LiveWeb) -> dict[str, list[tuple[str, int]]]:
    answer = web.client.get(f"{web.cluster}/scram-users")
    users = ScramUserDataList.model_validate_json(answer.content).data
    return {user.user_name: [(each.mechanism, each.iterations) for each in user.credentials] for user in users}


def test_a_scram_user_is_created_changed_and_deleted(web: LiveWeb) -> None:
    path = f"{web.cluster}/scram-users/alice"
    assert web.client.get(path).status_code == 404
    first = web.client.put(f"{path}/credentials/SCRAM-SHA-256", json={"password": "one"})
    assert first.status_code == 204, first.text
    kept = web.services.cluster.image.scram[SCRAM_SHA_256.type]["alice"]
    assert SCRAM_SHA_256.credential(kept.salt, SCRAM_SHA_256.salted_password("one", kept.salt, 8192), 8192) == kept
    more = {"password": "two", "iterations": 4096}
    assert web.client.put(f"{path}/credentials/SCRAM-SHA-512", json=more).status_code == 204
    assert scram_users(web)["alice"] == [("SCRAM-SHA-256", 8192), ("SCRAM-SHA-512", 4096)]
    described = ScramUserData.model_validate_json(web.client.get(path).content)
    assert described.user_name == "alice"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert web.client.delete(f"{path}/credentials/{mechanism}").status_code == 204
    assert "alice" not in scram_users(web)
    again = web.client.delete(f"{path}/credentials/SCRAM-SHA-256")
    assert (again.status_code, again.json()["kafka_error"]) == (404, "RESOURCE_NOT_FOUND")


def test_a_scram_password_is_shown_nowhere(web: LiveWeb) -> None:
    secret = "the-password-of-bob"
    assert (
        web.client.put(
            f"{web.cluster}/scram-users/bob/credentials/SCRAM-SHA-256", json={"password": secret}
        ).status_code
        == 204
    )
    places = ("/v3/audit", f"{web.cluster}/scram-users", f"{web.cluster}/metadata/records?from_offset=0&limit=1000")
    kept = web.services.cluster.image.scram[SCRAM_SHA_256.type]["bob"]
    for place in places:
        text = web.client.get(place).text
        assert secret not in text
        assert kept.stored_key.hex() not in text
    assert "bob" in web.client.get("/v3/audit?resource=scram-user/bob").text


@pytest.mark.parametrize(
    ("mechanism", "body", "status"),
    [
        ("SCRAM-SHA-1", {"password": "x"}, 400),
        ("SCRAM-SHA-256", {"password": "x", "iterations": 4095}, 400),
        ("SCRAM-SHA-256", {"password": "x", "iterations": 10**9}, 400),
        ("SCRAM-SHA-256", {"password": ""}, 422),
        ("SCRAM-SHA-256", {}, 422),
    ],
)
def test_an_invalid_scram_credential_is_refused(
    web: LiveWeb, mechanism: str, body: dict[str, object], status: int
) -> None:
    answer = web.client.put(f"{web.cluster}/scram-users/carol/credentials/{mechanism}", json=body)
    assert answer.status_code == status, answer.text
    assert "carol" not in scram_users(web)
