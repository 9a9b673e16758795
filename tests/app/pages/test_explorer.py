"""The API explorer lists every operation, and its form leads to the answer of a read."""

import pytest

from tests.app.live import LiveWeb
from tests.app.security.test_logins import FORM, add_user, login


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_operation_has_a_page(web: LiveWeb, language: str) -> None:
    headers = {**FORM, "Accept-Language": language}
    assert 'href="/explorer"' in web.client.get("/", headers=headers).text
    listed = web.client.get("/explorer", headers=headers)
    for methods in web.client.get("/openapi.json").json()["paths"].values():
        for operation in methods.values():
            assert f'href="/explorer/{operation["operationId"]}"' in listed.text
    shown = web.client.get("/explorer/create_topic", headers=headers).text
    assert "?validate_only=true" in shown
    assert "&#34;topic_name&#34;: &#34;orders&#34;" in shown
    assert "Idempotency-Key" in shown
    assert "40403" in shown
    assert "/explorer/create_topic/open" not in shown, "a change is not sent from here"
    assert web.client.get("/explorer/no_such", headers=headers).status_code == 404


def test_the_form_of_a_read_leads_to_its_answer(web: LiveWeb) -> None:
    add_user(web, "explorer", "viewer")
    client, cluster_id = login(web, "explorer"), web.cluster.rpartition("/")[2]
    assert f'value="{cluster_id}"' in client.get("/explorer/get_topic", headers=FORM).text
    form = {"p-cluster_id": cluster_id, "p-page_size": "1", "p-at_offset": ""}
    found = client.get("/explorer/list_topics/open", params=form, headers=FORM)
    assert (found.status_code, found.headers["Location"]) == (303, f"{web.cluster}/topics?page_size=1")
    assert client.get(found.headers["Location"]).json()["kind"] == "KafkaTopicList"
    odd = {"p-cluster_id": cluster_id, "p-consumer_group_id": "a/b?c\r\nX-Evil: 1"}
    found = client.get("/explorer/get_group/open", params=odd, headers=FORM)
    assert found.headers["Location"].endswith("/consumer-groups/a%2Fb%3Fc%0D%0AX-Evil:%201")
    assert "x-evil" not in found.headers
    for path, params in (("get_topic", {}), ("delete_topic", odd)):
        assert client.get(f"/explorer/{path}/open", params=params, headers=FORM).status_code == 400
    assert web.client.delete("/v3/users/explorer").status_code == 204
