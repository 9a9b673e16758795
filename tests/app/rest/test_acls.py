"""ACLs through REST on a controller without an authorizer, and invalid requests about them."""

import pytest

from app.rest.examples import EXAMPLES
from app.rest.schemas.acls import AclDataList
from tests.app.live import LiveWeb

ACL = EXAMPLES["create_acl"]


def test_acls_are_refused_without_an_authorizer(web: LiveWeb) -> None:
    answer = web.client.post(f"{web.cluster}/acls", json=ACL)
    assert (answer.status_code, answer.json()["kafka_error"]) == (400, "SECURITY_DISABLED")
    assert AclDataList.model_validate_json(web.client.get(f"{web.cluster}/acls").content).data == []


@pytest.mark.parametrize(
    "change", [{"resource_type": "TOPICS"}, {"pattern_type": "MATCH"}, {"operation": "ANY"}, {"permission": "MAYBE"}]
)
def test_an_unknown_acl_word_is_refused_with_the_allowed_words(web: LiveWeb, change: dict[str, str]) -> None:
    answer = web.client.post(f"{web.cluster}/acls", json={**ACL, **change})
    assert answer.status_code == 400
    ((name, value),) = change.items()
    assert f"{name} '{value}' is not one of" in answer.json()["message"]


def test_a_deletion_of_acls_requires_four_parameters(web: LiveWeb) -> None:
    answer = web.client.delete(f"{web.cluster}/acls?resource_type=TOPIC&operation=READ")
    assert (answer.status_code, "pattern_type, permission must be given" in answer.json()["message"]) == (400, True)
