"""Reassignments, elections, features, brokers and access control in the browser."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.interop import conclave
from tests.interop.kafka import wait_until
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


async def _register(product: Product, broker_id: int) -> None:
    client = conclave.controller_client(f"127.0.0.1:{product.controller_port}")
    try:
        await conclave.RawBroker(broker_id, product.cluster_path.rpartition("/")[2], client).register()
    finally:
        client.close()


def register(product: Product, broker_id: int) -> None:
    """Register a broker that does nothing else, so that a reassignment to it never completes."""
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright keeps an event loop running in this thread
        elsewhere.submit(asyncio.run, _register(product, broker_id)).result()
    path = f"{product.cluster_path}/brokers/{broker_id}"
    wait_until(lambda: product.call("GET", path)[0] == 200, 60, f"the web process has read of broker {broker_id}")


def create(product: Product, topic: str) -> None:
    body = {"topic_name": topic, "replicas_assignments": {"0": [1], "1": [1]}}
    assert product.call("POST", f"{product.cluster_path}/topics", body)[0] == 201


def test_a_reassignment_in_progress_is_cancelled(product: Product, page: Page) -> None:
    register(product, 2)
    create(product, "moved")
    data = [{"topic_name": "moved", "partition_id": 0, "replica_ids": [1, 2]}]
    assert product.call("POST", f"{product.cluster_path}/reassignments", {"data": data})[0] == 200
    page.goto("/reassignments")
    row = page.locator("tbody tr").filter(has_text="moved-0")
    expect(row).to_contain_text("0 of 1")
    row.get_by_role("button", name="Cancel…").click()
    expect(page.locator("table.what")).to_contain_text(re.compile(r"moved-0\s*1, 2\s*1"))
    page.get_by_role("button", name="Cancel reassignment").click()
    expect(page.get_by_role("status")).to_contain_text("Reassignment cancelled for 1 of 1 partition at offset")
    expect(row).to_have_count(0)


def test_an_election_is_previewed_and_says_which_replica_cannot_lead(product: Product, page: Page) -> None:
    create(product, "elected")
    page.goto("/topics/elected")
    page.get_by_role("link", name="Elect leaders…").click()
    expect(page.locator("main")).to_contain_text("Every partition is led by its preferred replica.")
    page.get_by_label("Election").select_option("UNCLEAN")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main")).to_contain_text("Every partition has a leader.")
    register(product, 3)
    entry = {"topic_name": "elected", "partition_id": 1, "replica_ids": [3, 1]}
    assert product.call("POST", f"{product.cluster_path}/reassignments", {"data": [entry]})[0] == 200
    page.goto("/elections?topics=elected")
    expect(page.locator("#partitions tbody")).to_contain_text("The preferred leader was not available.")
    page.get_by_role("button", name="Elect leaders of all").click()
    expect(page.get_by_role("status")).to_contain_text("can be elected")


def test_a_plan_is_saved_approved_started_and_cancelled(product: Product, page: Page) -> None:
    register(product, 6)
    create(product, "planned")
    page.goto("/plans")
    page.get_by_role("link", name="Move partitions…").click()
    page.get_by_label(re.compile("^Paste a reassignment")).check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_label(re.compile("^Plan")).fill("planned 0 1,77")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("alert")).to_contain_text("planned-0: broker 77 is not registered.")
    page.get_by_label(re.compile("^Plan")).fill("planned 0 1,6\nplanned 1 1")
    page.get_by_role("button", name="Review").click()
    expect(page.locator("main")).to_contain_text("1 replica would be copied")
    page.get_by_label("Throttle per broker").fill("fast")
    page.get_by_role("button", name="Update the estimate").click()
    expect(page.get_by_role("alert")).to_contain_text("Throttle 'fast' is not a whole number from 1 to")
    page.get_by_label("Throttle per broker").fill("5")
    page.get_by_role("button", name="Save as a draft…").click()
    expect(page.locator("main")).to_contain_text("1 replica would be copied")
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_role("status")).to_contain_text("is saved as a draft")
    for action in ("Approve", "Start"):
        page.get_by_role("button", name=f"{action}…").click()
        page.get_by_role("button", name=action, exact=True).click()
    plan = page.locator("#plan")
    expect(plan).to_contain_text(re.compile(r"planned-0\s*1\s*1, 6\s*(pending|moving)\s*0 of 1"))
    expect(plan).to_contain_text(re.compile(r"planned-1\s*1\s*1\s*unchanged"))
    page.get_by_label("New replicas on a broker at once").fill("9")
    page.get_by_role("button", name="Change…").click()
    expect(page.locator("table.what")).to_contain_text(re.compile(r"New replicas on a broker at once\s*5\s*9"))
    page.get_by_role("button", name="Change limits").click()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(plan).to_contain_text("paused")
    page.get_by_role("button", name="Cancel and undo…").click()
    page.get_by_role("button", name="Cancel plan").click()
    expect(plan).to_contain_text(re.compile(r"planned-0\s*1\s*1, 6\s*(skipped|undone)"))
    expect(plan.locator(".tag").first).to_have_text("cancelled")
    story = plan.locator("ol.feed li")
    expect(story.last).to_contain_text("Saved as a draft with 2 partitions, with replicas that were typed or pasted.")
    for sentence in ("Approved.", "Started.", "Paused: no further partition begins.", "Throttles set: 5 MiB/s"):
        expect(story.filter(has_text=sentence).first).to_be_visible()
    expect(story.first).to_contain_text("Cancelled: 1 of 2 partitions verified in place")
    page.goto("/plans")
    expect(page.locator("#plans tbody tr").first).to_contain_text("cancelled")
    page.goto("/brokers/6")
    page.get_by_role("link", name="Drain…").click()
    expect(page.get_by_label("Broker 6", exact=True)).to_be_checked()
    page.get_by_label("unregister the brokers once stopped").check()
    page.get_by_role("button", name="Review").click()
    expect(page.locator("main")).to_contain_text("Broker 6 will be unregistered once stopped.")
    page.get_by_role("button", name="Save as a draft…").click()
    page.get_by_role("button", name="Save draft").click()
    expect(plan).to_contain_text(re.compile(r"Drains\s*6"))


def test_a_feature_level_is_validated_before_it_is_changed(product: Product, page: Page) -> None:
    page.goto("/features")
    row = page.locator("#levels tbody tr").filter(has_text="metadata.version")
    expect(row).to_contain_text("30 (4.3-IV0)")
    nodes = len(product.call("GET", f"{product.cluster_path}/brokers")[1]["data"])
    expect(row).to_contain_text(f"7 to 30, by {nodes} of {nodes} node")
    page.get_by_label("Feature").select_option("eligible.leader.replicas.version")
    page.get_by_label("New level").fill("7")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("INVALID_UPDATE_VERSION")
    page.goto("/features")
    page.get_by_label("Feature").select_option("eligible.leader.replicas.version")
    page.get_by_label("New level").fill("0")
    page.get_by_label("Upgrade type").select_option("SAFE_DOWNGRADE")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("Validated by the controller.")
    page.get_by_role("button", name="Update feature").click()
    expect(page.get_by_role("status")).to_contain_text(
        "eligible.leader.replicas.version set to level 0 (off) at offset"
    )
    row = page.locator("#levels tbody tr").filter(has_text="eligible.leader.replicas.version")
    expect(row).to_contain_text("0 (off)")


def test_a_broker_is_unregistered_only_after_its_id_is_typed(product: Product, page: Page) -> None:
    register(product, 4)
    page.goto("/brokers/4")
    page.get_by_role("button", name="Unregister broker…").click()
    page.get_by_label("Type 4 to confirm").fill("5")
    page.get_by_role("button", name="Unregister broker").click()
    expect(page.get_by_role("alert")).to_contain_text("'5' is not '4'. Nothing has changed.")
    page.get_by_label("Type 4 to confirm").fill("4")
    page.get_by_role("button", name="Unregister broker").click()
    expect(page.get_by_role("status")).to_contain_text("Broker 4 unregistered at offset")
    assert product.call("GET", f"{product.cluster_path}/brokers/4")[0] == 404


def test_a_scram_user_is_created_and_deleted(product: Product, page: Page) -> None:
    page.goto("/rights/scram")
    page.get_by_role("button", name="Set a password…").click()
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill("a secret of alice")
    page.get_by_label("Iterations").fill("100")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("alert")).to_contain_text("Iterations must be a whole number from 4096 to 16384.")
    expect(page.get_by_label("User", exact=True)).to_have_value("alice")
    expect(page.get_by_label("Password", exact=True)).to_have_value("")
    page.get_by_label("Password", exact=True).fill("a secret of alice")
    page.get_by_label("Iterations").fill("4096")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("status")).to_contain_text("SCRAM-SHA-256 credential of alice created at offset")
    assert "a secret of alice" not in page.content()
    page.locator("#scram tbody tr").filter(has_text="alice").get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete credential").click()
    expect(page.get_by_role("status")).to_contain_text("alice")
    expect(page.locator("#scram")).to_contain_text("No SCRAM users.")


def test_a_quota_is_set_and_removed(product: Product, page: Page) -> None:
    page.goto("/rights/quotas")
    quotas = page.locator("#quotas")
    page.get_by_role("button", name="Set a quota…").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("An entity is required: user, client-id, ip")
    page.get_by_label("client-id", exact=True).fill("loader")
    page.get_by_label("Value (empty: remove)").fill("many")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("'many' is not a number.")
    expect(page.get_by_label("client-id", exact=True)).to_have_value("loader")
    page.get_by_label("Value (empty: remove)").fill("1 MiB")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("table.what")).to_contain_text(
        re.compile(r"producer_byte_rate of client-id loader\s*none\s*1\s048\s576 \(1 MiB\)")
    )
    page.get_by_role("button", name="Set quota").click()
    row = quotas.locator("tbody tr").filter(has_text="client-id loader")
    expect(row).to_contain_text(re.compile(r"producer_byte_rate\s*1\s048\s576"))
    row.get_by_role("button", name="Remove…").click()
    page.get_by_role("button", name="Remove quota").click()
    expect(page.get_by_role("status")).to_contain_text("client-id loader")
    expect(quotas).to_contain_text("No quotas.")


def test_a_delegation_token_is_refused_with_the_reason_when_tokens_are_disabled(product: Product, page: Page) -> None:
    page.goto("/rights/tokens")
    page.get_by_role("button", name="Create token…").click()
    page.get_by_label("Owner (empty: this dashboard's user)").fill("User:alice")
    page.get_by_label("Renewers, one per line").fill("User:bob\nUser:carol")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("table.what")).to_contain_text(re.compile(r"Owner\s*User:alice"))
    expect(page.locator("table.what")).to_contain_text("User:bob, User:carol")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("alert")).to_contain_text("DELEGATION_TOKEN_")


def test_an_acl_without_an_authorizer_is_refused_with_the_reason(product: Product, page: Page) -> None:
    page.goto("/rights")
    page.get_by_role("button", name="Add ACL…").click()
    page.get_by_label("Principal", exact=True).fill("User:alice")
    page.get_by_label("Resource name").fill("orders")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("SECURITY_DISABLED")
    expect(page.get_by_label("Resource name")).to_have_value("orders")


def test_lists_follow_the_cluster_and_keep_what_is_being_typed(product: Product, page: Page) -> None:
    user = f"{product.cluster_path}/scram-users/elsewhere/credentials/SCRAM-SHA-256"
    quota = {
        "entity": [{"entity_type": "ip", "entity_name": "10.0.0.7"}],
        "data": [{"key": "connection_creation_rate", "value": 20}],
    }
    gone = {**quota, "data": [{"key": "connection_creation_rate", "value": None}]}
    page.goto("/rights/scram")
    page.get_by_role("button", name="Set a password…").click()
    page.get_by_label("User", exact=True).fill("half-typed")
    try:
        assert product.call("PUT", user, {"password": "made by REST"})[0] == 204
        expect(page.locator("#scram-list")).to_contain_text("elsewhere")
        expect(page.get_by_label("User", exact=True)).to_have_value("half-typed")
        expect(page.get_by_label("User", exact=True)).to_be_focused()
    finally:
        assert product.call("DELETE", user)[0] == 204
    expect(page.locator("#scram-list")).not_to_contain_text("elsewhere")
    page.goto("/rights/quotas")
    try:
        assert product.call("POST", f"{product.cluster_path}/client-quotas:alter", quota)[0] == 204
        expect(page.locator("#quota-list")).to_contain_text("ip 10.0.0.7")
    finally:
        assert product.call("POST", f"{product.cluster_path}/client-quotas:alter", gone)[0] == 204
    expect(page.locator("#quota-list")).not_to_contain_text("10.0.0.7")
    page.goto("/reassignments")
    register(product, 5)
    create(product, "watched")
    body = {"data": [{"topic_name": "watched", "partition_id": 0, "replica_ids": [1, 5]}]}
    assert product.call("POST", f"{product.cluster_path}/reassignments", body)[0] == 200
    expect(page.locator("#moving")).to_contain_text("watched-0")


def test_the_explorer_sends_a_change_by_keyboard(product: Product, page: Page) -> None:
    page.goto("/explorer/create_topic")
    body, box = page.get_by_label("Body (JSON)"), page.get_by_label("validate_only")
    button = page.get_by_role("button", name="Send")
    expect(body).to_have_value(re.compile('"topic_name": "orders"'))
    expect(box).to_be_checked()
    body.fill('{"topic_name": "by-keyboard", "partitions_count": 2}')
    page.keyboard.press("Tab")
    expect(box).to_be_focused()
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    answer = page.locator("#answer")
    expect(answer).to_be_focused()
    expect(answer).to_contain_text("Answer: 200 OK")
    expect(answer).to_contain_text('"validated": true')
    assert violations(page) == []
    box.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.locator("table.what")).to_contain_text(re.compile(r"POST /v3/clusters/\S+/topics\s*Body.*by-keyboard"))
    assert violations(page) == []
    page.get_by_role("button", name="Send").press("Enter")
    expect(answer).to_contain_text("Answer: 201 Created")
    expect(answer).to_contain_text(re.compile("x-metadata-offset", re.IGNORECASE))
    assert violations(page) == []
    assert product.call("GET", f"{product.cluster_path}/topics/by-keyboard")[0] == 200
