"""The API explorer lists every operation; its form leads to the answer of a read, and sends a change."""

import json
from typing import Any

import httpx
import pytest

from tests.app.live import LiveWeb
from tests.app.security.test_logins import FORM, add_user, login, session_token


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
    assert "/explorer/create_topic/open" not in shown, "a change is no link"
    assert '<input type="checkbox" name="validate_only" value="true" checked>' in shown
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


def explored(client: httpx.Client, web: LiveWeb, operation: str, **fields: Any) -> httpx.Response:
    form = {
        "csrf_token": session_token(client),
        "p-cluster_id": web.cluster.rpartition("/")[2],
        **{
            name if name in {"body", "validate_only", "confirmed"} else f"p-{name}": text
            for name, text in fields.items()
        },
    }
    return client.post(f"/explorer/{operation}", data=form, headers=FORM)


def topic_status(web: LiveWeb, name: str) -> int:
    return web.client.get(f"{web.cluster}/topics/{name}").status_code


def test_a_change_is_sent_as_a_dry_run_then_after_a_confirmation(web: LiveWeb) -> None:
    add_user(web, "sender", "editor")
    client = login(web, "sender")
    body = json.dumps({"topic_name": "explored", "configs": [{"name": "retention.ms", "value": "77"}]})
    dry = explored(client, web, "create_topic", body=body, validate_only="true").text
    assert "Answer: 200 OK" in dry
    assert "Nothing has changed: this was the dry run." in dry
    assert "&#34;validated&#34;: true" in dry
    assert topic_status(web, "explored") == 404
    preview = explored(client, web, "create_topic", body=body).text
    assert "The dry run has succeeded. Nothing has changed yet." in preview
    assert "validate_only" not in preview
    assert topic_status(web, "explored") == 404
    sent = explored(client, web, "create_topic", body=body, confirmed="yes").text
    assert "Answer: 201 Created" in sent
    assert "etag: " in sent.lower()
    assert "x-metadata-offset: " in sent.lower()
    assert topic_status(web, "explored") == 200
    events = web.client.get("/v3/audit", params={"resource": "topic/explored"}).json()["data"]
    assert [(each["actor"], each["action"], each["result"]) for each in events] == [("sender", "topic.create", "ok")]
    old = explored(client, web, "delete_topic", topic_name="explored", **{"if-match": '"old"'}).text
    assert "Answer: 412 Precondition Failed" in old
    assert explored(client, web, "delete_topic", topic_name="explored", confirmed="yes").status_code == 200
    assert topic_status(web, "explored") == 404
    assert web.client.delete("/v3/users/sender").status_code == 204


def test_a_change_has_the_rights_of_its_sender_and_needs_the_form(web: LiveWeb) -> None:
    add_user(web, "looker", "viewer")
    client = login(web, "looker")
    body = json.dumps({"topic_name": "unexplored"})
    for confirmed in ("", "yes"):
        refused = explored(client, web, "create_topic", body=body, confirmed=confirmed).text
        assert "Answer: 403 Forbidden" in refused
        assert "This needs the role editor" in refused
    assert "Answer: 400 Bad Request" in explored(client, web, "create_topic", body="{", validate_only="true").text
    form = {"p-cluster_id": web.cluster.rpartition("/")[2], "body": body, "confirmed": "yes"}
    assert client.post("/explorer/create_topic", data=form, headers=FORM).status_code == 403
    for odd in ({"Idempotency-Key": "a\r\nX-Evil: 1"}, {"Idempotency-Key": "ключ"}, {"cluster_id": ""}):
        assert explored(client, web, "create_topic", body=body, **odd).status_code == 400
    assert explored(client, web, "get_topic", topic_name="x").status_code == 400
    assert explored(client, web, "no_such").status_code == 404
    assert topic_status(web, "unexplored") == 404
    assert web.client.delete("/v3/users/looker").status_code == 204
