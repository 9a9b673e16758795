"""Voters added and removed by page, REST and command line, on a live quorum. KIP-853."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.rest.schemas.voters import VoterChangeData
from kraft_core.protocol.messages import AddRaftVoterRequest, AddRaftVoterRequestListener
from kraft_core.protocol.uuids import uuid_from_text
from tests.app.cluster.voter_quorum import JOINER, VoterQuorum, static_node, voter_quorum
from tests.app.live import LiveWeb, running_web
from tests.interop import conclave, kafka

FORM = {"Accept": "text/html"}
STRANGER = "nBQDfFT6Q2WVyEPPkqGzPg"


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VoterQuorum]:
    with voter_quorum(tmp_path_factory.mktemp("voters")) as running:
        yield running


@pytest.fixture
def joiner(quorum: VoterQuorum) -> Iterator[VoterQuorum]:
    """Three caught-up voters and a fourth node that observes, restored after each test."""
    kafka.wait_until(
        lambda: all(each["is_caught_up"] for each in quorum.describe()["voters"]), 60, "every voter is caught up"
    )
    yield quorum
    if JOINER in quorum.voters:
        quorum.conclave(
            "remove",
            *("--bootstrap-controller", quorum.bootstrap, "--controller-id", JOINER),
            *("--controller-directory-id", quorum.directory_id),
        )
    quorum.wait_until_observed()


@pytest.fixture(scope="module")
def admin(quorum: VoterQuorum) -> httpx.Client:
    """Return a browser with an admin's session, without JavaScript."""
    return browser(quorum.web, "ann", "admin")


def browser(web: LiveWeb, name: str, role: str) -> httpx.Client:
    password = "a good long password"
    answer = web.client.post("/v3/users", json={"name": name, "role": role, "password": password})
    assert answer.status_code == 201, answer.text
    client = web.http(follow_redirects=True)
    form = {"name": name, "password": password, "csrf_token": csrf_of(client.get("/login", headers=FORM).text)}
    assert client.post("/login", data=form, headers=FORM).status_code == 200
    return client


def csrf_of(html: str) -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', html)
    assert found, html[:500]
    return found[1]


def links(html: str) -> set[str]:
    return set(re.findall(r'href="(/quorum/voters/[^"]+)"', html))


def submit(client: httpx.Client, path: str) -> httpx.Response:
    """Open the preview and post its form."""
    page = client.get(path, headers=FORM)
    assert page.status_code == 200, page.text
    action = re.search(rf'<form method="post" action="({re.escape(path)})"', page.text)
    assert action, page.text
    return client.post(action[1], data={"csrf_token": csrf_of(page.text), "confirmed": "yes"}, headers=FORM)


def test_an_admin_adds_and_removes_a_voter_in_the_browser(joiner: VoterQuorum, admin: httpx.Client) -> None:
    add = f"/quorum/voters/{JOINER}/{joiner.directory_id}/add"
    assert add in links(admin.get("/quorum", headers=FORM).text)
    looked = admin.get(add, headers=FORM).text
    assert "not met" not in looked
    for words in (
        "1, 2, 3",
        "1, 2, 3, 4",
        "3 of 4",
        "conclave quorum add --bootstrap-controller",
        "4 voters tolerate 1 failure",
    ):
        assert words in looked
    assert joiner.voters == [1, 2, 3], "looking changes nothing"
    done = submit(admin, add)
    assert done.url.path == "/quorum"
    assert f"Voter {JOINER} added at offset" in done.text
    assert joiner.voters == [1, 2, 3, 4]
    remove = f"/quorum/voters/{JOINER}/{joiner.directory_id}/remove"
    assert remove in links(done.text)
    gone = submit(admin, remove)
    assert f"Voter {JOINER} removed at offset" in gone.text
    assert joiner.voters == [1, 2, 3]


def test_a_preview_with_a_failed_precondition_has_no_button(joiner: VoterQuorum, admin: httpx.Client) -> None:
    page = admin.get(f"/quorum/voters/{JOINER}/{STRANGER}/add", headers=FORM).text
    assert "not met" in page
    assert f"It fetches with directory {joiner.directory_id}" in page
    assert 'method="post" action="/quorum/voters' not in page
    token = csrf_of(admin.get("/access", headers=FORM).text)
    forced = admin.post(f"/quorum/voters/{JOINER}/{STRANGER}/add", data={"csrf_token": token}, headers=FORM)
    assert forced.status_code == 409
    assert joiner.voters == [1, 2, 3]
    unsigned = admin.post(f"/quorum/voters/{JOINER}/{joiner.directory_id}/add", headers=FORM)
    assert unsigned.status_code == 403, "a form of another site"
    assert joiner.voters == [1, 2, 3]


def test_only_admins_see_and_make_changes_of_the_voters(joiner: VoterQuorum) -> None:
    editor = browser(joiner.web, "eve", "editor")
    assert links(editor.get("/quorum", headers=FORM).text) == set()
    path = f"/quorum/voters/{JOINER}/{joiner.directory_id}/add"
    assert editor.get(path, headers=FORM).status_code == 403
    token = csrf_of(editor.get("/topics", headers=FORM).text)
    assert editor.post(path, data={"csrf_token": token}, headers=FORM).status_code == 403
    body = {"voter_id": JOINER, "directory_id": joiner.directory_id}
    by_rest = editor.post(f"{joiner.web.cluster}/quorum/voters", json=body, headers={"X-CSRF-Token": token})
    assert by_rest.status_code == 403
    assert joiner.voters == [1, 2, 3]


def test_rest_adds_and_removes_a_voter_at_the_offset_of_the_record(joiner: VoterQuorum) -> None:
    client, voters = joiner.web.client, f"{joiner.web.cluster}/quorum/voters"
    body = {"voter_id": JOINER, "directory_id": joiner.directory_id}
    dry = client.post(voters, json={**body, "validate_only": True})
    plan = VoterChangeData.model_validate_json(dry.content)
    assert (dry.status_code, plan.offset, joiner.voters) == (200, None, [1, 2, 3])
    assert plan.endpoints[0].port == joiner.nodes.port_of(JOINER), "as it registered"
    assert all(check.is_met for check in plan.checks)

    added = client.post(voters, json=body)
    change = VoterChangeData.model_validate_json(added.content)
    assert added.status_code == 201
    assert added.headers["X-Metadata-Offset"] == str(change.offset)
    assert change.after.voter_ids == joiner.voters == [1, 2, 3, 4]
    assert (change.before.failures_tolerated, change.after.failures_tolerated) == (1, 1)

    again = client.post(voters, json=body)
    assert (again.status_code, again.json()["kafka_error"]) == (409, "DUPLICATE_VOTER")
    kept = client.delete(f"{voters}/{JOINER}/{joiner.directory_id}?validate_only=true")
    assert VoterChangeData.model_validate_json(kept.content).after.voter_ids == [1, 2, 3]
    assert joiner.voters == [1, 2, 3, 4]

    removed = client.delete(f"{voters}/{JOINER}/{joiner.directory_id}")
    assert removed.status_code == 204
    assert change.offset is not None
    assert int(removed.headers["X-Metadata-Offset"]) > change.offset
    assert joiner.voters == [1, 2, 3]
    audited = client.get(f"/v3/audit?resource=voter/{JOINER}&action=voter.remove&page_size=1").json()["data"][0]
    assert audited["metadata_offset"] == int(removed.headers["X-Metadata-Offset"])
    assert audited["detail"]["voters"] == [1, 2, 3]


def test_the_offset_of_a_change_is_where_the_log_of_the_leader_has_the_voters(joiner: VoterQuorum) -> None:
    """Read from a node's disk, not from the process that answered."""
    body = {"voter_id": JOINER, "directory_id": joiner.directory_id}
    offset = joiner.web.client.post(f"{joiner.web.cluster}/quorum/voters", json=body).json()["offset"]
    kafka.wait_until(lambda: joiner.dumped_voters().get(offset) == {1, 2, 3, JOINER}, 60, "the record is on disk", 0.05)


@pytest.mark.parametrize(
    ("body", "status", "kafka_error"),
    [
        ({"voter_id": JOINER, "directory_id": STRANGER}, 409, None),
        ({"voter_id": 9, "directory_id": STRANGER}, 400, "INVALID_REQUEST"),
        ({"voter_id": JOINER, "directory_id": "not base64"}, 400, "INVALID_VOTER_KEY"),
        ({"voter_id": JOINER, "directory_id": "AAAAAAAAAAAAAAAAAAAAAA"}, 400, "INVALID_VOTER_KEY"),
        ({"voter_id": 1, "directory_id": STRANGER}, 409, "DUPLICATE_VOTER"),
        ({"voter_id": -1, "directory_id": STRANGER}, 422, None),
        ({"voter_id": JOINER}, 422, None),
    ],
)
def test_an_impossible_voter_is_refused_by_name(
    joiner: VoterQuorum, body: dict[str, object], status: int, kafka_error: str | None
) -> None:
    answer = joiner.web.client.post(f"{joiner.web.cluster}/quorum/voters", json=body)
    assert (answer.status_code, answer.json().get("kafka_error")) == (status, kafka_error), answer.text
    assert joiner.voters == [1, 2, 3]


def test_an_endpoint_without_the_leaders_listener_is_refused(joiner: VoterQuorum) -> None:
    endpoint = {"name": "ELSEWHERE", "host": "127.0.0.1", "port": joiner.nodes.port_of(JOINER)}
    body = {"voter_id": JOINER, "directory_id": joiner.directory_id, "endpoints": [endpoint]}
    answer = joiner.web.client.post(f"{joiner.web.cluster}/quorum/voters", json=body)
    assert (answer.status_code, answer.json()["kafka_error"]) == (400, "INVALID_REQUEST")
    assert [each["name"] for each in answer.json()["checks"] if not each["is_met"]] == ["endpoints"]


def test_a_node_that_is_not_a_voter_cannot_be_removed(joiner: VoterQuorum) -> None:
    for voter_id, directory_id in ((JOINER, joiner.directory_id), (1, STRANGER)):
        answer = joiner.web.client.delete(f"{joiner.web.cluster}/quorum/voters/{voter_id}/{directory_id}")
        assert (answer.status_code, answer.json()["kafka_error"]) == (404, "VOTER_NOT_FOUND")


def test_a_change_just_made_by_another_client_is_known(joiner: VoterQuorum) -> None:
    """The quorum of the page may be a second old; preconditions are checked again."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=5_000,
        voter_id=JOINER,
        voter_directory_id=uuid_from_text(joiner.directory_id),
        listeners=(
            AddRaftVoterRequestListener(name="CONTROLLER", host="127.0.0.1", port=joiner.nodes.port_of(JOINER)),
        ),
    )
    port = joiner.nodes.port_of(joiner.leader_id)
    kafka.wait_until(lambda: joiner.voters == [1, 2, 3], 60, "the answer is kept from now on", 0.01)
    assert asyncio.run(conclave.call(port, request, 0)).error_code == 0

    def is_read() -> bool:
        voters = joiner.web.services.cluster.observer.voters
        return voters is not None and JOINER in {each.voter_id for each in voters.voters}

    kafka.wait_until(is_read, 60, "the web process has read the voters", 0.01)
    removed = joiner.web.client.delete(f"{joiner.web.cluster}/quorum/voters/{JOINER}/{joiner.directory_id}")
    assert removed.status_code == 204, removed.text


def test_the_command_line_adds_and_removes_a_voter(joiner: VoterQuorum) -> None:
    servers = ("--bootstrap-controller", joiner.bootstrap)
    added = joiner.conclave("add", *servers, "-c", joiner.nodes.config_of(JOINER))
    assert added.returncode == 0, added.stderr
    assert f"Added controller {JOINER} with directory id {joiner.directory_id}" in added.stdout
    described = joiner.conclave("describe", *servers, "--json")
    assert f'"nodeId": {JOINER}, "directoryId": "{joiner.directory_id}", "status": "Follower"' in described.stdout
    twice = joiner.conclave("add", *servers, "-c", joiner.nodes.config_of(JOINER))
    assert (twice.returncode, "DUPLICATE_VOTER" in twice.stderr) == (1, True), twice.stderr
    assert len(twice.stderr.strip().splitlines()) == 1
    key = ("--controller-id", JOINER, "--controller-directory-id", joiner.directory_id)
    removed = joiner.conclave("remove", *servers, *key)
    assert removed.returncode == 0, removed.stderr
    assert f"Removed controller {JOINER}" in removed.stdout
    twice = joiner.conclave("remove", *servers, *key)
    assert (twice.returncode, "VOTER_NOT_FOUND" in twice.stderr) == (1, True), twice.stderr
    assert joiner.conclave("remove", *servers, *key[:3], "not base64").returncode == 2
    assert joiner.conclave("add", *servers).returncode == 2


def test_the_command_line_shows_preconditions_and_sends_nothing_when_one_fails(joiner: VoterQuorum) -> None:
    servers = ("--bootstrap-controller", joiner.bootstrap)
    looked = joiner.conclave("add", *servers, "-c", joiner.nodes.config_of(JOINER), "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert "Voters: 1, 2, 3 -> 1, 2, 3, 4" in looked.stdout
    assert "kraft.version is 1" in looked.stdout
    assert "NOT MET" not in looked.stdout
    assert joiner.voters == [1, 2, 3]
    stranger = ("--controller-id", JOINER, "--controller-directory-id", STRANGER)
    refused = joiner.conclave("remove", *servers, *stranger)
    assert (refused.returncode, refused.stdout.count("NOT MET")) == (1, 1), refused.stdout
    told = json.loads(joiner.conclave("remove", *servers, *stranger, "--json").stdout)
    assert (told["done"], [check["name"] for check in told["checks"] if not check["isMet"]]) == (False, ["is-a-voter"])
    forced = joiner.conclave("remove", *servers, *stranger, "--force")  # the leader refuses it too
    assert (forced.returncode, "VOTER_NOT_FOUND" in forced.stderr) == (1, True), forced.stderr


def test_the_command_line_describes_lag_and_majority(joiner: VoterQuorum) -> None:
    servers = ("--bootstrap-controller", joiner.bootstrap)

    def all_well() -> dict[str, Any] | None:
        told: dict[str, Any] = json.loads(joiner.conclave("describe", *servers, "--json").stdout)
        return told if all(each["lagTimeMs"] < 3_000 for each in told["voters"]) else None

    told = kafka.wait_until(all_well, 60, "every voter is caught up")
    assert (told["kraftVersion"], told["majority"], told["failuresTolerated"]) == (1, 2, 1)
    assert {each["nodeId"]: each["status"] for each in told["observers"]} == {JOINER: "Observer"}
    shown = joiner.conclave("describe", *servers).stdout
    assert "kraft.version 1 (dynamic voters)" in shown
    assert "Majority 2 of 3, tolerated failures 1" in shown


def test_a_leader_that_is_removed_hands_over(joiner: VoterQuorum) -> None:
    voters = f"{joiner.web.cluster}/quorum/voters"
    added = joiner.web.client.post(voters, json={"voter_id": JOINER, "directory_id": joiner.directory_id})
    assert added.status_code == 201, added.text
    leader = joiner.leader_id
    assert leader != JOINER, "nobody has elected it"
    directory_id = joiner.nodes.directory_ids[leader - 1]
    removed = joiner.web.client.delete(f"{voters}/{leader}/{directory_id}")
    assert removed.status_code == 204, removed.text
    joiner.wait_until_led_by_another_than(leader)
    assert leader not in joiner.voters
    body = {"voter_id": leader, "directory_id": directory_id}
    joiner.wait_until_observed(leader)
    back = joiner.web.client.post(voters, json=body)
    assert back.status_code == 201, back.text
    said = f"node {leader} was removed from the voters"
    kafka.wait_until(lambda: said in joiner.web.client.get("/fragments/quorum").text, 60, "the page says why it went")


def test_static_voters_cannot_be_changed_and_the_page_says_how_they_become_dynamic(tmp_path: Path) -> None:
    with static_node(tmp_path) as bootstrap, running_web(tmp_path, bootstrap) as web:
        web.wait_ready()
        client = browser(web, "ann", "admin")
        page = client.get("/quorum", headers=FORM).text
        assert links(page) == set()
        assert "upgrade --feature kraft.version=1" in page
        for answer in (
            web.client.post(f"{web.cluster}/quorum/voters", json={"voter_id": 2, "directory_id": STRANGER}),
            web.client.delete(f"{web.cluster}/quorum/voters/1/{STRANGER}"),
        ):
            assert (answer.status_code, answer.json()["kafka_error"]) == (400, "UNSUPPORTED_VERSION"), answer.text
