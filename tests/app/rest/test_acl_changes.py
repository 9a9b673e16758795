"""ACLs on a controller with an authorizer: by REST, by command and on pages."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup

from app.rest.schemas.acls import AclImportData, DeletedAclsData
from app.rest.schemas.base import DryRunData
from app.rest.schemas.deletions import AclDeletionDataList
from tests.app.cli.in_process import conclave
from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.app.rest.authorizer import ACL, authorized_quorum, listed, super_user_web


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    folder = tmp_path_factory.mktemp("acls")
    with authorized_quorum(folder / "quorum") as quorum, super_user_web(folder, quorum) as running:
        yield running


def test_an_acl_is_created_found_and_deleted(web: LiveWeb) -> None:
    before = listed(web)
    made = web.client.post(f"{web.cluster}/acls", json=ACL)
    assert (made.status_code, made.content) == (201, b"")
    assert web.client.get(made.headers["Location"]).json()["data"][0]["principal"] == "User:alice"
    wide = {**ACL, "resource_name": "ord", "pattern_type": "PREFIXED", "permission": "DENY"}
    other = {**ACL, "resource_type": "GROUP", "resource_name": "*", "principal": "User:bob", "operation": "ALL"}
    batch = web.client.post(f"{web.cluster}/acls:batch", json={"data": [wide, other]})
    assert batch.status_code == 204, batch.text
    assert listed(web, resource_type="TOPIC", resource_name="orders", pattern_type="MATCH") == [wide, ACL]
    assert listed(web, principal="User:bob") == [other]
    again = web.client.post(f"{web.cluster}/acls", json=ACL)
    assert again.status_code == 201, "an existing ACL is not an error"
    required = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}
    gone = web.client.delete(f"{web.cluster}/acls", params={**required, "principal": "User:alice"})
    deleted = DeletedAclsData.model_validate_json(gone.content).data
    assert sorted(acl.resource_name for acl in deleted) == ["ord", "orders"]
    assert web.client.delete(f"{web.cluster}/acls", params={**required, "principal": "User:bob"}).status_code == 200
    assert listed(web) == before


def test_named_acls_are_deleted_in_one_call_with_a_result_for_each(web: LiveWeb) -> None:
    before = listed(web)
    kept, gone = ACL | {"principal": "User:kept"}, ACL | {"principal": "User:gone"}
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": [kept, gone]}).status_code == 204
    body = {"data": [gone, ACL | {"principal": "User:absent"}]}
    for query in ("?validate_only=true", ""):
        answer = web.client.post(f"{web.cluster}/acls:delete{query}", json=body)
        data = AclDeletionDataList.model_validate_json(answer.content).data
        assert [(each.principal, each.error_code, each.kafka_error) for each in data] == [
            ("User:gone", None, None),
            ("User:absent", 404, "RESOURCE_NOT_FOUND"),
        ]
        assert answer.status_code == 207
        assert (gone in listed(web)) == bool(query)
    filtered = web.client.post(f"{web.cluster}/acls:delete", json={"data": [kept | {"operation": "ANY"}]})
    assert (filtered.status_code, filtered.json()["kafka_error"]) == (400, "INVALID_REQUEST")
    done = web.client.post(f"{web.cluster}/acls:delete", json={"data": [kept]})
    assert (done.status_code, listed(web)) == (200, before)


def test_the_command_creates_lists_and_deletes_acls(web: LiveWeb, capfd: pytest.CaptureFixture[str]) -> None:
    def acls(*arguments: str) -> tuple[int, list[list[str]], str]:
        done = conclave(capfd, "acls", *arguments, "--url", web.url, "--token", ADMIN_TOKEN)
        return done.code, [line.split() for line in done.output.splitlines()], done.complaint

    before = listed(web)
    carol = ("--principal", "User:carol", "--operation", "read", "--operation", "DESCRIBE", "--topic", "pay.")
    header = ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "TYPE", "RESOURCE", "NAME", "PATTERN", "TYPE", "HOST"]
    rows = [["User:carol", "ALLOW", word, "TOPIC", "pay.", "PREFIXED", "*"] for word in ("READ", "DESCRIBE")]
    dry = acls("create", *carol, "--prefixed", "--dry-run")
    assert dry == (0, [header, *rows, ["Dry", "run:", "nothing", "was", "changed."]], "")
    assert listed(web) == before
    assert acls("create", *carol, "--prefixed")[:2] == (0, [header, *rows, ["Created."]])
    assert acls("list", "--principal", "User:carol")[:2] == (0, [header, *rows[::-1]])
    assert acls("list", "--operation", "READ", "--operation", "read", "--topic", "pay.")[1] == [header, rows[0]]
    code, _, complaint = acls("delete", "--principal", "User:carol")
    assert (code, "confirm with --yes" in complaint) == (2, True)
    assert acls("delete", "--yes")[0] == 2, "not all ACLs by mistake"
    assert acls("delete", "--operation", "READ", "--topic", "pay.", "--yes")[1] == [header, rows[0], ["Deleted", "1."]]
    assert acls("delete", "--principal", "User:carol", "--dry-run")[1][1:2] == rows[1:]
    assert acls("delete", "--principal", "User:carol", "--yes")[0] == 0
    assert listed(web) == before
    for wrong in (carol[:4], (*carol, "--group", "g"), (*carol[:2], "--topic", "t")):
        assert acls("create", *wrong)[0] == 2, wrong
    code, _, complaint = acls("create", "--principal", "User:carol", "--operation", "FLY", "--cluster")
    assert (code, complaint.count("\n"), "FLY" in complaint) == (1, 1, True)


def test_an_application_gets_its_acls_by_rest_by_command_and_on_the_page(
    web: LiveWeb, capfd: pytest.CaptureFixture[str]
) -> None:
    before = listed(web)
    wanted = {"preset": "consumer", "principal": "User:app", "read_topics": ["orders"], "group": "billing"}
    url = f"{web.cluster}/acls:application"
    planned = DryRunData.model_validate_json(web.client.post(f"{url}?validate_only=true", json=wanted).content)
    assert [each.before for each in planned.changes] == [None] * 3
    assert listed(web) == before
    assert web.client.post(url, json=wanted).status_code == 204
    made = [each for each in listed(web) if each["principal"] == "User:app"]
    assert {(each["resource_type"], each["resource_name"], each["operation"]) for each in made} == {
        ("TOPIC", "orders", "READ"),
        ("TOPIC", "orders", "DESCRIBE"),
        ("GROUP", "billing", "READ"),
    }
    for change, said in (
        ({"group": ""}, "The preset consumer needs group."),
        ({"preset": "producer"}, "The preset producer needs write_topics."),
        ({"principal": "app"}, "The principal must be TYPE:NAME, as in User:alice (was 'app')."),
        ({"preset": "broker"}, "preset input should be 'producer', 'consumer', 'streams' or 'connect'"),
    ):
        refused = web.client.post(url, json={**wanted, **change})
        assert (refused.status_code in {400, 422}, said in refused.json()["message"]) == (True, True), refused.text
    more = ("--read-topic", "orders", "--read-topic", "payments", "--group", "billing")
    done = conclave(
        capfd,
        "acls",
        "application",
        "consumer",
        "--principal",
        "User:app",
        *more,
        "--url",
        web.url,
        "--token",
        ADMIN_TOKEN,
    )
    assert (done.code, done.output.splitlines()[-1]) == (0, "Created 2; 3 existed.")
    html = {"Accept": "text/html"}
    form = {"preset": "streams", "principal": "User:app", "application_id": "sums", "write_topics": "totals,\nmore"}
    many = web.client.post(
        "/rights/applications", data={**form, "write_topics": " ".join(map(str, range(400)))}, headers=html
    )
    assert (many.status_code, "There are more than 1000 ACLs." in many.text) == (400, True)
    preview = BeautifulSoup(web.client.post("/rights/applications", data=form, headers=html).text, "html.parser")
    rows = [cell.get_text() for cell in preview.select(".what tbody td")]
    assert (len(rows) // 3, rows.count("none"), rows.count("exists")) == (8, 8, 8)
    sent = {str(each["name"]): str(each["value"]) for each in preview.select("form[action] input[name]")}
    assert sent["write_topics"] == "totals more"
    done_page = web.client.post("/rights/applications", data=sent, headers=html)
    assert (done_page.status_code, done_page.headers["location"]) == (303, "/rights")
    assert sum(each["principal"] == "User:app" for each in listed(web)) == 5 + 8
    any_of = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}
    assert web.client.delete(f"{web.cluster}/acls", params={**any_of, "principal": "User:app"}).status_code == 200
    assert listed(web) == before


def test_workers_of_connect_get_what_the_user_guide_of_connect_lists(web: LiveWeb) -> None:
    """Source: "ACL requirements" in the user guide of Kafka Connect, without those for brokers before 2.8."""
    wanted = {
        "preset": "connect",
        "principal": "User:worker",
        "group": "etl",
        "internal_topics": ["etl-configs", "etl-offsets", "etl-status"],
        "connectors": ["orders-sink", "db-source"],
        "read_topics": ["orders."],
        "write_topics": ["db."],
        "prefixed": True,
        "exactly_once": True,
    }

    def planned(**change: object) -> set[tuple[str, ...]]:
        answer = web.client.post(f"{web.cluster}/acls:application?validate_only=true", json={**wanted, **change})
        assert answer.status_code == 200, answer.text
        acls = [dict(each["after"]) for each in answer.json()["changes"]]
        return {
            (each["operation"], each["resource_type"], each["pattern_type"], each["resource_name"]) for each in acls
        }

    workers = {("READ", "GROUP", "LITERAL", "etl")} | {
        (operation, "TOPIC", "LITERAL", f"etl-{topic}")
        for operation in ("READ", "WRITE", "CREATE")
        for topic in ("configs", "offsets", "status")
    }
    sinks = {("READ", "GROUP", "LITERAL", f"connect-{name}") for name in ("orders-sink", "db-source")}
    sinks |= {(operation, "TOPIC", "PREFIXED", "orders.") for operation in ("READ", "DESCRIBE")}
    sources = {(operation, "TOPIC", "PREFIXED", "db.") for operation in ("WRITE", "CREATE", "DESCRIBE")}
    once = {
        (operation, "TRANSACTIONAL_ID", pattern, name)
        for operation in ("WRITE", "DESCRIBE")
        for pattern, name in (
            ("LITERAL", "connect-cluster-etl"),
            ("PREFIXED", "etl-orders-sink-"),
            ("PREFIXED", "etl-db-source-"),
        )
    }
    assert planned() == workers | sinks | sources | once
    assert planned(exactly_once=False, read_topics=[]) == workers | sources
    assert planned(exactly_once=False, read_topics=[], write_topics=[], connectors=[]) == workers
    for change, said in (
        ({"internal_topics": ["etl-configs", "etl-configs"]}, "are three: configs, offsets, status (was etl-configs, "),
        ({"connectors": []}, "The preset connect needs connectors."),
    ):
        refused = web.client.post(f"{web.cluster}/acls:application", json={**wanted, **change})
        assert (refused.status_code, said in refused.json()["message"]) == (400, True), refused.text


def test_a_refused_form_of_acls_keeps_what_was_typed(web: LiveWeb) -> None:
    application = {
        "preset": "connect",
        "principal": "User:worker",
        "read_topics": "orders payments",
        "internal_topics": "configs offsets",
        "prefixed": "yes",
        "host": "10.0.0.7",
    }
    acl = {**ACL, "permission": "DENY", "resource_type": "CLUSTER", "resource_name": "not-the-cluster"}
    for path, form, error in (
        ("/rights/applications", application, "The preset connect needs group, connectors."),
        ("/rights/applications", {**application, "preset": "consumer", "principal": "app"}, "must be TYPE:NAME"),
        ("/rights/acls", acl, "kafka-cluster"),
        ("/rights/acls", {**ACL, "principal": "alice"}, "alice"),
    ):
        answer = web.client.post(path, data=form, headers={"Accept": "text/html"})
        page = BeautifulSoup(answer.text, "html.parser")
        alert = page.select_one("section.confirm [role=alert]")
        assert (answer.status_code, alert is not None and error in alert.get_text()) == (400, True), answer.text
        found = page.select_one(f"form[action='{path}']")
        assert found is not None
        kept = {
            str(each["name"]): str(each.get("value", "")) if each.name == "input" else each.get_text()
            for each in found.select("input[type!=checkbox], input[checked], textarea")
        }
        kept |= {
            str(each["name"]): str(option.get("value", option.get_text()))
            for each in found.select("select")
            for option in each.select("option[selected]")
        }
        assert {name: kept[name] for name in form} == form


def test_the_page_of_a_principal_shows_its_rights_and_answers_what_it_may(web: LiveWeb) -> None:
    read = {**ACL, "principal": "User:page", "resource_name": "pay.", "pattern_type": "PREFIXED"}
    deny = {**read, "resource_name": "pay.secret", "pattern_type": "LITERAL", "permission": "DENY"}
    everyone = {**ACL, "principal": "User:*", "resource_type": "GROUP", "resource_name": "*"}
    other = {**read, "principal": "User:pages"}
    before = listed(web)
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": [read, deny, everyone, other]}).status_code == 204
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "page"}],
        "data": [{"key": "producer_byte_rate", "value": 1024}],
    }
    assert web.client.post(f"{web.cluster}/client-quotas:alter", json=quota).status_code in {200, 204}
    html = {"Accept": "text/html"}

    def page_of(**question: str) -> BeautifulSoup:
        answer = web.client.get("/rights/principal", params={"name": "User:page", **question}, headers=html)
        assert answer.status_code == 200, answer.text
        return BeautifulSoup(answer.text, "html.parser")

    def said(**question: str) -> str:
        found = page_of(**question).select_one("#question .notice")
        assert found is not None
        return found.get_text()

    page = page_of()
    assert page.select_one("#question .notice") is None
    names = [cell.get_text() for cell in page.select("[data-table=acls-of-principal] tbody td:first-child")]
    assert sorted(set(names)) == ["User:*", "User:page"]
    (quotas,) = page.select("[data-table=quotas-of-principal] tbody")
    assert quotas.get_text(" ", strip=True) == "user page producer_byte_rate 1\u202f024 1 KiB"
    topic = {"resource_type": "TOPIC", "resource_name": "pay.orders"}
    assert said(operation="READ", **topic) == "Yes: ALLOW READ on topic pay. (prefixed) to User:page from *."
    assert said(operation="DESCRIBE", **topic).startswith("Yes: ALLOW READ on topic pay. (prefixed)")
    assert said(operation="WRITE", **topic).startswith("No: no ACL allows it.")
    secret = {"resource_type": "TOPIC", "resource_name": "pay.secret"}
    assert said(operation="READ", **secret).startswith(
        "No: DENY READ on topic pay.secret (literal) to User:page from *."
    )
    group = {"resource_type": "GROUP", "resource_name": "any"}
    assert said(operation="READ", **group) == "Yes: ALLOW READ on group * (literal) to User:* from *."
    assert "with allow.everyone.if.no.acl.found everybody may" in said(
        operation="WRITE", resource_type="TRANSACTIONAL_ID", resource_name="unnamed"
    )
    assert said(operation="READ", resource_type="CLUSTER").startswith("A resource of type CLUSTER has the operations")
    assert said(operation="READ", resource_type="TOPIC") == "Name the resource."
    assert said(operation="READ", resource_type="SHOE", resource_name="x").startswith(
        "The resource type must be one of"
    )
    assert web.client.get("/rights/principal?name=page", headers=html).status_code == 400
    linked = BeautifulSoup(web.client.get("/rights?q=page", headers=html).text, "html.parser")
    assert linked.select_one("a[href='/rights/principal?name=User%3Apage']") is not None
    any_of = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}
    for name in ("User:page", "User:pages", "User:*"):
        assert web.client.delete(f"{web.cluster}/acls", params={**any_of, "principal": name}).status_code == 200
    assert listed(web) == before


def test_downloaded_acls_are_imported_again_and_others_deleted_if_wanted(web: LiveWeb) -> None:
    html, before = {"Accept": "text/html"}, listed(web)
    first, second = ({**ACL, "principal": "User:imported", "resource_name": name} for name in ("kept", "restored"))
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": [first, second]}).status_code == 204
    text = web.client.get("/download?of=/rights&table=acls&format=csv&whole=yes").text
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [second]}).status_code == 200
    other = {**ACL, "principal": "User:imported", "resource_name": "other"}
    assert web.client.post(f"{web.cluster}/acls", json=other).status_code == 201

    def sent(**form: str) -> BeautifulSoup:
        answer = web.client.post("/rights/import", data={"text": text, **form}, headers=html)
        return BeautifulSoup(answer.text, "html.parser")

    shown = sent().select_one(".confirm")
    assert shown is not None
    assert f"1 to add, {len(before) + 1} exist already, 0 to delete." in shown.get_text()
    assert "Line 2: " in sent(text="principal,permission,operation,resource,pattern_type,host\nx,x,x,x,x,x").get_text()
    refused = sent(text=json.dumps([{**ACL, "resource_type": "CLUSTER"}]), remove="yes")
    alert, kept = refused.select_one("[role=alert]"), refused.select_one("textarea")
    assert alert is not None
    assert "kafka-cluster" in alert.get_text(), "the controllers' rules"
    assert kept is not None
    assert "CLUSTER" in kept.get_text()
    assert sent(remove="yes").select_one("input[name=typed]") is not None
    assert "Nothing has changed." in sent(remove="yes", confirmed="yes", typed="7").get_text()
    assert other in listed(web)
    sent(remove="yes", confirmed="yes", typed="1")
    now = listed(web)
    assert (first in now, second in now, other in now, len(now)) == (True, True, False, len(before) + 2)
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [first, second]}).status_code == 200
    assert listed(web) == before


def test_an_import_deletes_all_others_in_one_change(web: LiveWeb) -> None:
    before = listed(web)
    made = [{**ACL, "principal": "User:imported", "resource_name": name} for name in ("kept", "first", "second")]
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": made}).status_code == 204
    form = {"text": json.dumps([*before, made[0]]), "remove": "yes", "confirmed": "yes", "typed": "2"}
    assert web.client.post("/rights/import", data=form, headers={"Accept": "text/html"}).status_code == 303
    (event,) = web.client.get("/v3/audit?action=acls.delete&page_size=1").json()["data"]
    assert all(f"resourceName={name}," in str(event["detail"]["acls"]) for name in ("first", "second"))
    web.client.post(f"{web.cluster}/acls:delete", json={"data": made[:1]}).raise_for_status()


def test_acls_are_imported_by_rest_with_a_result_for_each(web: LiveWeb) -> None:
    before, url = listed(web), f"{web.cluster}/acls:import"
    kept, new, other = ({**ACL, "principal": "User:rest", "resource_name": name} for name in ("kept", "new", "other"))
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": [kept, other]}).status_code == 204
    body = {"data": [*before, kept, new, new], "remove_others": True}

    def imported(**change: object) -> AclImportData:
        answer = web.client.post(url, json={**body, **change})
        assert answer.status_code == 200, answer.text
        return AclImportData.model_validate_json(answer.content)

    for only, added, gone in ((True, 1, 1), (False, 1, 1), (False, 0, 0)):
        found = imported(validate_only=only)
        counts = (found.created_count, found.unchanged_count, found.deleted_count, found.refused_count)
        assert counts == (added, len(before) + 2 - added, gone, 0)
        results = {each.resource_name: each for each in found.data if each.principal == "User:rest"}
        assert (results["kept"].change, results["new"].change) == ("NONE", "CREATE" if added else "NONE")
        assert [(each.resource_name, each.change) for each in found.data[len(before) + 2 :]] == [("other", "DELETE")][
            :gone
        ]
        has_changed = not only and bool(added)
        assert [results[name].metadata_offset is not None for name in ("new", "kept")] == [has_changed, False]
        assert other in listed(web) if only else other not in listed(web)
    assert imported(data=[kept], remove_others=False).deleted_count == 0
    for entry, said in (
        ({"operation": "FLY"}, "/data/1 operation 'FLY' is not one of"),
        ({"principal": "nobody"}, "/data/1 The principal must be TYPE:NAME, as in User:alice (was 'nobody')."),
        ({"resource_name": ""}, "/data/1 resource_name must be given."),
    ):
        refused = web.client.post(url, json={"data": [ACL, {**ACL, **entry}], "remove_others": True})
        assert (refused.status_code, said in refused.json()["message"]) == (400, True), refused.text
        assert refused.json()["errors"][0]["pointer"] == "/data/1"
    odd = web.client.post(url, json={"data": [new | {"principal": "User:odd"}, {**ACL, "resource_type": "CLUSTER"}]})
    assert (odd.status_code, odd.json()["kafka_error"]) == (400, "INVALID_REQUEST"), "the controllers' rules"
    assert sorted(each["resource_name"] for each in listed(web) if each not in before) == ["kept", "new"]
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [kept, new]}).status_code == 200


def test_exported_acls_are_imported_by_the_command(
    web: LiveWeb, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acls(*arguments: object) -> tuple[int, str, str]:
        done = conclave(capfd, "acls", *arguments, "--url", web.url, "--token", ADMIN_TOKEN)
        return done.code, done.output, done.complaint

    before = listed(web)
    spaced = {**ACL, "principal": "User:two  spaces", "operation": "DESCRIBE_CONFIGS"}
    kept, gone, other = (spaced, *({**ACL, "principal": "User:file", "resource_name": name} for name in ("a", "b")))
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": [kept, gone]}).status_code == 204
    file = tmp_path / "acls.csv"
    file.write_bytes(acls("export")[1].encode())
    page = web.client.get("/download?of=/rights&table=acls&format=csv&whole=yes").text
    assert file.read_bytes().decode() == page
    as_json = web.client.get("/download?of=/rights&table=acls&format=json&whole=yes").json()
    said = json.loads(acls("export", "--json")[1])
    assert {**said, "metadata_offset": None} == {**as_json, "metadata_offset": None}
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [gone]}).status_code == 200
    assert web.client.post(f"{web.cluster}/acls", json=other).status_code == 201
    code, shown, _ = acls("import", file, "--remove-others", "--dry-run")
    counts = f"1 created, {len(before) + 1} unchanged, 1 deleted, 0 refused"
    assert (code, shown.splitlines()[-1]) == (0, f"Dry run: {counts}; nothing was changed.")
    assert [line.split()[0] for line in shown.splitlines()[1:-1]] == ["create", "delete"]
    code, _, complaint = acls("import", file, "--remove-others")
    assert (code, "confirm with --yes" in complaint) == (2, True)
    assert (gone in listed(web), other in listed(web)) == (False, True)
    assert acls("import", file, "--remove-others", "--yes")[1].splitlines()[-1] == f"Done: {counts}."
    assert (gone in listed(web), other in listed(web)) == (True, False)
    wrong = page.replace("describe configs", "fly")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(wrong.encode())))
    code, shown, complaint = acls("import", "-", "--remove-others", "--yes")
    assert (code, shown) == (1, "Nothing was changed.\n")
    number = next(index for index, line in enumerate(wrong.split("\n"), 1) if ",fly," in line)
    assert complaint.startswith(f"conclave: standard input: line {number}: operation 'fly' is not one of ")
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [kept, gone]}).status_code == 200
    assert listed(web) == before


def test_selected_acls_are_deleted_from_the_page_after_a_preview(web: LiveWeb) -> None:
    before = listed(web)
    made = [ACL | {"principal": f"User:{name}"} for name in ("picked", "chosen", "left")]
    assert web.client.post(f"{web.cluster}/acls:batch", json={"data": made}).status_code == 204
    items = [urlencode(each) for each in (*made[:2], ACL | {"principal": "User:absent"})]
    asked = web.client.post("/selected-acls/delete", data={"item": items}, headers={"Accept": "text/html"})
    assert asked.status_code == 200, asked.text
    assert "The ACL no longer exists." in asked.text
    assert all(each in listed(web) for each in made), "the preview deletes nothing"
    form = {"item": items[:2], "confirmed": "yes", "typed": "2 ACLs"}
    done = web.client.post("/selected-acls/delete", data=form, headers={"Accept": "text/html"})
    assert "2 ACLs: 2 done, 0 failed" in done.text
    assert sorted(each["principal"] for each in listed(web) if each not in before) == ["User:left"]
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": made[2:]}).status_code == 200


def test_a_dry_run_of_acls_lists_them_and_changes_none(web: LiveWeb) -> None:
    assert web.client.post(f"{web.cluster}/acls", json={**ACL, "principal": "User:dry"}).status_code == 201
    before = listed(web)
    required = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}
    wanted = {**required, "principal": "User:dry", "validate_only": "true"}
    gone = DeletedAclsData.model_validate_json(web.client.delete(f"{web.cluster}/acls", params=wanted).content)
    assert (gone.validated, [acl.principal for acl in gone.data]) == (True, ["User:dry"])
    made = web.client.post(f"{web.cluster}/acls?validate_only=true", json={**ACL, "principal": "User:new"})
    assert (made.status_code, made.json()["changes"][0]["before"]) == (200, None)
    assert made.json()["changes"][0]["after"]["principal"] == "User:new"
    both = {"data": [ACL | {"principal": "User:dry"}, ACL | {"principal": "User:new"}], "validate_only": True}
    batch = web.client.post(f"{web.cluster}/acls:batch", json=both).json()["changes"]
    assert [each["before"] is None for each in batch] == [False, True], "the first one exists"
    bad = web.client.post(f"{web.cluster}/acls?validate_only=true", json={**ACL, "principal": "nobody"})
    assert (bad.status_code, bad.json()["kafka_error"]) == (400, "INVALID_REQUEST")
    assert listed(web) == before
    del wanted["validate_only"]
    assert web.client.delete(f"{web.cluster}/acls", params=wanted).status_code == 200


def test_a_line_break_in_a_name_stays_in_the_query_of_the_location(web: LiveWeb) -> None:
    made = web.client.post(
        f"{web.cluster}/acls", json={**ACL, "resource_name": "clicks", "principal": "User:a\r\nSet-Cookie: stolen=1"}
    )
    assert made.status_code == 201
    assert "set-cookie" not in made.headers
    assert "%0D%0A" in made.headers["Location"]
