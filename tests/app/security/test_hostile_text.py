"""Twelve hostile texts in every field that people or programs can fill are shown as text. ASVS 5.0, 1.2.1."""

import json
import logging
import uuid
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from app.cluster.acls import filter_of, words_of
from app.logs import JsonFormatter
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.acls_image import StandardAcl
from kraft_core.image.scram_mechanism import SCRAM_SHA_256
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.messages import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from tests.app.live import LiveWeb, combined_node, running_web
from tests.app.security.test_logins import FORM, add_user, csrf_of, login
from tests.interop import conclave, kafka
from tests.interop.conclave import FEATURES

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "</title><script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    '" hx-on:click="alert(1)" hx-get="//evil.example/',
    "{{7*7}}{% raw %}",
    "<!--<iframe srcdoc='<script>alert(1)</script>'>",
    "\u202e<b>gnp.exe</b>",
    "<template><style>*{display:none}</style>",
    "&lt;script&gt;&#x3c;img&#x3e;",
)
FOREIGN = {"img", "svg", "iframe", "template", "style", "object", "embed", "base"}
"""Elements that no page with these fields has otherwise."""
DRAWINGS = ({"class": "icon", "aria-hidden": "true"}, {"class": "spark"})
"""The attributes of our own SVG: icons, and lines of numbers."""
OURS = "http://127.0.0.1:"


class Markup(HTMLParser):
    """A page as a browser parses it: its elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def assert_harmless(html: str) -> None:
    """Assert that a page has no foreign element, no handler, no script but ours, no address but on this server."""
    for tag, attributes in Markup(html).elements:
        is_ours = tag == "svg" and any(
            all(attributes.get(name) == value for name, value in each.items()) for each in DRAWINGS
        )
        assert tag not in FOREIGN or is_ours, f"<{tag}> {attributes}"
        assert not [name for name in attributes if name.startswith(("on", "hx-on"))], attributes
        assert tag != "script" or attributes.get("src", "").startswith("/static/"), attributes  # type: ignore[union-attr]  # src has a value
        for name in ("href", "action", "src", "hx-get", "hx-post", "formaction"):
            address = attributes.get(name) or "/"
            assert address.startswith(("/", "#", "?", OURS)), address
            assert not address.startswith("//"), address


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """Every payload is in the metadata log (racks and hosts of brokers) and in the database (the audit)."""
    folder = tmp_path_factory.mktemp("hostile")
    with combined_node(folder / "node") as node, running_web(folder, node.bootstrap, login_attempts_max=100) as web:
        web.wait_ready()
        for number, payload in enumerate(PAYLOADS):
            register_broker(web, 100 + number, payload)
            web.http().post("/login", data={"name": payload, "password": "x"}, headers=FORM)
            web.client.get("/v3/clusters", headers={"Authorization": f"Bearer {quote(payload)}"})
        yield web


def register_broker(web: LiveWeb, broker_id: int, payload: str) -> None:
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=web.cluster.rpartition("/")[2],
        incarnation_id=uuid.uuid4(),
        listeners=(BrokerRegistrationRequestListener(name="PLAINTEXT", host=payload, port=1, security_protocol=0),),
        features=tuple(
            BrokerRegistrationRequestFeature(name=name, min_supported_version=least, max_supported_version=most)
            for name, (least, most) in FEATURES.items()
        ),
        rack=payload,
        log_dirs=(uuid.uuid4(),),
    )
    answer = web.call(web.services.cluster.client.request(request, 30_000))
    assert answer.error_code == 0, answer


@pytest.fixture(scope="module")
def admin(planted: LiveWeb) -> httpx.Client:
    add_user(planted, "xena", "admin")
    return login(planted, "xena")


PAGES = (
    "/",
    "/changes",
    "/audit",
    "/access",
    "/quorum",
    "/quorum/epochs",
    "/topics",
    "/brokers",
    "/reports",
    "/account",
    "/reassignments",
    "/moves/new?goal=drain&step=where",
    "/elections",
    "/features",
    "/rights",
    "/flaps?window=all",
    "/flaps/elections",
)


@pytest.mark.parametrize("page", PAGES)
def test_values_of_the_log_and_the_database_are_shown_as_text(planted: LiveWeb, admin: httpx.Client, page: str) -> None:
    kafka.wait_until(
        lambda: PAYLOADS[-1] in " ".join(Markup(admin.get("/changes", headers=FORM).text).words), 60, "seen"
    )
    html = admin.get(page, headers=FORM).text
    assert_harmless(html)
    if page == "/brokers":
        words = " ".join(Markup(html).words)
        assert all(payload in words for payload in PAYLOADS)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_values_of_addresses_and_forms_are_shown_as_text(planted: LiveWeb, admin: httpx.Client, payload: str) -> None:
    said = quote(payload, safe="")
    for path in (
        f"/topics?q={said}&sort={said}&problem={said}&page={said}",
        f"/audit?actor={said}&resource={said}",
        f"/topics/{said}",
        f"/changes?before={said}",
        f"/changes?q={said}&about=partition&name={said}",
        f"/fragments/changes?after=0&q={said}&name={said}",
        f"/flaps?from={said}&to={said}&window={said}",
        f"/flaps/elections?topic={said}&partition={said}",
        f"/flaps/elections?topic={said}",
        f"/brokers/{said}/timeline",
        f"/quorum/epochs?page={said}",
        f"/moves/new?goal={said}&topics={said}&holder={said}&p={said}&to_rack={said}&step=where",
        f"/moves/new?topics=*&to_rack={said}&step=review&throttle={said}&unit={said}",
        f"/moves/new?goal=report&report={said}&step=review",
        f"/moves/new?goal=paste&plan={said}+0+1&step=review",
        f"/moves/new?goal=paste&plan={said}+0+1&step=save",
        f"/elections?topics={said}&type={said}&page={said}",
        f"/quorum/voters/1/{said}/add",
        f"/{said}",
    ):
        assert_harmless(admin.get(path, headers=FORM).text)
    assert_harmless(planted.http().get(f"/login?next={said}", headers=FORM).text)


# ACLs, SCRAM users and quotas


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """Every payload is a principal and a resource of an ACL, a host, a SCRAM user, and the user of a quota."""
    folder = tmp_path_factory.mktemp("rights")
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer_class_name": authorizer, "super_users": "User:ANONYMOUS"}
    with (
        conclave.running_quorum(folder, 1, **settings) as nodes,
        running_web(folder, nodes.bootstrap, login_attempts_max=100) as web,
    ):
        web.wait_ready()
        admin = web.services.cluster.admin
        for number, payload in enumerate(PAYLOADS):
            register_broker(web, number, payload)
            web.call(admin.acls.create([hostile_acl(payload)]))
            web.call(admin.scram.put(payload, SCRAM_SHA_256, "x", 4096))
            web.call(admin.quotas.alter((("user", payload),), {"producer_byte_rate": 1.0}))
            change = ConfigChange("metric.reporters", AlterConfigOp.SET, payload)
            web.call(admin.configs.alter(BROKER, str(number), [change]))
        add_user(web, "xena", "admin")
        yield web


def hostile_acl(payload: str) -> StandardAcl:
    return StandardAcl(
        resource_type=ResourceType.GROUP,
        resource_name=payload,
        pattern_type=PatternType.LITERAL,
        principal=f"User:{payload}",
        host=payload,
        operation=AclOperation.READ,
        permission_type=AclPermissionType.ALLOW,
    )


def test_names_of_users_and_rights_are_shown_as_text(rights: LiveWeb) -> None:
    admin = login(rights, "xena")
    tabs = ("/rights/scram", "/rights/quotas", "/rights/tokens")
    for path in ("/rights", *tabs, "/changes", "/", "/audit"):
        html = admin.get(path, headers=FORM).text
        assert_harmless(html)
    html = admin.get("/rights", headers=FORM).text
    words = Markup(html).words
    further = [word for path in tabs for word in Markup(admin.get(path, headers=FORM).text).words]
    for payload in PAYLOADS:
        assert [word for word in words if word == f"User:{payload}"], "the principal of the ACL"
        assert [word for word in words if word == f"group {payload}"], "its resource"
        assert words.count(payload) == 1, "its host"
        assert further.count(payload) == 1, "the SCRAM user"
        assert [word for word in further if word == f"user {payload}"], "whom the quota is for"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_page_of_a_principal_shows_names_as_text(rights: LiveWeb, payload: str) -> None:
    admin = login(rights, "xena")
    name = f"User:{payload}"
    for question in (
        {},
        {"operation": "READ", "resource_type": "GROUP", "resource_name": payload, "host": payload},
        {"operation": payload[:50], "resource_type": payload[:50]},
    ):
        html = admin.get("/rights/principal", params={"name": name, **question}, headers=FORM).text
        assert_harmless(html)
        words = Markup(html).words
        assert [word for word in words if word == f"group {payload}"], "the resource of its ACL"
        assert [word for word in words if word == f"user {payload}"], "its quota"
    assert_harmless(admin.get("/rights/principal", params={"name": payload}, headers=FORM).text)


@pytest.mark.parametrize("name", ["long" * 500, "line\r\nbreak\ttab", "\u202egnp.exe\u2069\u2066", "two  spaces "])
def test_an_odd_name_leads_to_its_page_and_is_said_as_it_is(rights: LiveWeb, name: str) -> None:
    admin, principal = login(rights, "xena"), f"User:{name}"
    rights.call(rights.services.cluster.admin.acls.create([hostile_acl(name)]))
    quota = rights.services.cluster.admin.quotas
    rights.call(quota.alter((("user", name),), {"producer_byte_rate": 1.0}))
    for path in ("/rights", "/rights/quotas"):
        links = [
            each.get("href") or "" for tag, each in Markup(admin.get(path, headers=FORM).text).elements if tag == "a"
        ]
        (link,) = {each for each in links if parse_qs(urlsplit(each).query).get("name") == [principal]}
        page = Markup(admin.get(link, headers=FORM).text)
        assert principal in page.words, "the principal of the ACL"
        assert f"group {name}" in page.words
    token = csrf_of(admin.get("/rights", headers=FORM).text)
    form = {**words_of(hostile_acl(name)), "csrf_token": token}
    preview = Markup(admin.post("/rights/acls/delete", data=form, headers=FORM).text)
    escaped = name.encode("unicode_escape").decode()
    said = f"ALLOW READ on group {escaped} (literal) to User:{escaped} from {escaped}"
    assert said in preview.words, "a sentence is on one line, in one direction"
    kept = {each.get("name"): each.get("value") for tag, each in preview.elements if tag == "input"}
    assert (kept["principal"], kept["resource_name"]) == (principal, name)
    rights.call(quota.alter((("user", name),), {"producer_byte_rate": None}))
    rights.call(rights.services.cluster.admin.acls.delete(filter_of(hostile_acl(name))))


@pytest.mark.parametrize(("number", "payload"), list(enumerate(PAYLOADS)))
def test_the_value_of_a_config_is_shown_as_text(rights: LiveWeb, number: int, payload: str) -> None:
    admin = login(rights, "xena")
    token = csrf_of(admin.get("/rights", headers=FORM).text)
    path = f"/brokers/{number}/configs"
    for page in (f"/brokers/{number}", f"{path}?q=metric.reporters"):
        html = admin.get(page, headers=FORM).text
        assert_harmless(html)
        assert payload in [word.strip() for word in Markup(html).words]
    form = {"name": "metric.reporters", "value": payload, "operation": "set", "csrf_token": token}
    assert_harmless(admin.post(path, data=form, headers=FORM).text)
    assert_harmless(admin.get(f"{path}?q={quote(payload)}", headers=FORM).text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_previews_of_rights_show_names_as_text(rights: LiveWeb, payload: str) -> None:
    admin = login(rights, "xena")
    token = csrf_of(admin.get("/rights", headers=FORM).text)
    acl = {
        "resource_type": "GROUP",
        "resource_name": payload,
        "pattern_type": "LITERAL",
        "principal": f"User:{payload}",
        "host": payload,
        "operation": "READ",
        "permission": "ALLOW",
    }
    forms: list[tuple[str, dict[str, str]]] = [
        ("/rights/acls", acl),
        ("/rights/acls/delete", acl),
        ("/rights/acls", {**acl, "resource_type": payload}),
        ("/rights/scram", {"name": payload, "mechanism": payload, "password": "x"}),
        ("/rights/scram/delete", {"name": payload, "mechanism": "SCRAM-SHA-256"}),
        ("/rights/tokens", {"owner": f"User:{payload}", "renewers": f"User:{payload}"}),
        ("/rights/tokens", {"owner": payload, "renewers": payload, "hours": payload}),
        ("/rights/quotas", {"user": payload, "key": "producer_byte_rate", "value": "2"}),
        ("/rights/quotas", {"user": payload, "key": payload, "value": payload}),
        ("/features", {"name": payload, "level": payload, "kind": payload}),
        ("/plans", {"topics": payload, "to": payload, "holder": payload, "p": payload, "throttle": payload}),
        ("/plans", {"goal": "drain", "drain": payload, "drain_rack": payload, "drain_dir": payload}),
        (
            "/plans",
            {
                "goal": "paste",
                "plan": json.dumps({"partitions": [{"topic": payload, "partition": 0, "replicas": [1]}]}),
            },
        ),
        ("/elections", {"topics": payload, "p": payload, "type": payload}),
    ]
    for path, form in forms:
        answer = admin.post(path, data={**form, "csrf_token": token}, headers=FORM)
        assert answer.status_code in {200, 400, 404, 422}, f"{path} {form}: {answer.status_code}"
        assert_harmless(answer.text)


SQL = (
    "' OR '1'='1",
    "'; DROP TABLE users; --",
    '" OR ""="',
    "%",
    "_",
    "\\",
    "1) OR (1=1",
    "x' UNION SELECT name FROM users --",
)


@pytest.mark.parametrize("text", SQL)
def test_a_filter_is_a_value_and_never_a_statement(planted: LiveWeb, text: str) -> None:
    for name in ("actor", "action", "resource", "result"):
        answer = planted.client.get("/v3/audit", params={name: text})
        assert answer.status_code in {200, 400}, answer.text
        assert answer.json().get("data", []) == [], f"{name}={text} finds what it does not name"
    assert planted.client.get("/v3/users/" + quote(text, safe="")).status_code in {400, 404, 405}
    assert planted.client.get("/v3/users").status_code == 200


@pytest.mark.parametrize("text", ["a\nb", 'x\r\n{"event": "forged"}', "\x1b[31mred", 'quo"te', "\u2028"])
def test_a_name_in_a_json_log_line_stays_in_its_field(text: str) -> None:
    record = logging.makeLogRecord({"name": "audit", "msg": "audit", "levelno": logging.INFO, "actor": text})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["actor"] == text
