"""Live parts of pages: made once for readers who would get the same, and never across rights, languages or changes."""

from collections.abc import Iterator

import httpx
import pytest

from app.pages import groups, shared_parts, topics
from tests.app import groups as group_steps
from tests.app.live import CombinedNode, LiveWeb
from tests.app.security.test_logins import add_user, login, session_token
from tests.interop import kafka

LIVE = {"X-Live": "1"}
LIST = "/fragments/topics?q=shared."
PICK = 'form="select-topics"'


@pytest.fixture(scope="module")
def readers(web: LiveWeb) -> dict[str, httpx.Client]:
    """Sessions of two viewers and two editors; their names are in no other text."""
    names = {"viewer": ("shared-vera", "shared-viktor"), "editor": ("shared-edith", "shared-edgar")}
    for role, name in ((role, name) for role, both in names.items() for name in both):
        add_user(web, name, role)
    assert web.client.post(f"{web.cluster}/topics", json={"topic_name": "shared.one"}).status_code == 201
    return {name: login(web, name) for both in names.values() for name in both}


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let answers last, and count how often the list of topics was made."""
    calls: list[int] = []
    found = topics.current_topics
    monkeypatch.setattr(shared_parts, "FRESH_SECONDS", 600.0)
    monkeypatch.setattr(topics, "current_topics", lambda request: calls.append(1) or found(request))
    return calls


def parts_of(web: LiveWeb) -> shared_parts.SharedParts:
    """The shared parts about the first cluster, also before the first reader."""
    kept: dict[str, shared_parts.SharedParts] = web.app.state.shared_parts
    return kept.setdefault("", shared_parts.SharedParts())


def live(client: httpx.Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=LIVE | headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["content-length"]) == len(answer.content)
    return answer.text


def test_readers_with_equal_rights_share_one_answer(readers: dict[str, httpx.Client], made: list[int]) -> None:
    def is_shared() -> bool:  # unless the stamp has changed between the two
        before = len(made)
        first, second = (live(readers[name], LIST) for name in ("shared-vera", "shared-viktor"))
        return first == second and len(made) <= before + 1

    kafka.wait_until(is_shared, 30, "two viewers got one answer", 0.05)
    before = len(made)
    readers["shared-vera"].get(LIST)
    assert len(made) == before + 1, "who opens a page gets a new one"


def test_an_answer_is_never_shared_across_rights_languages_and_columns(readers: dict[str, httpx.Client]) -> None:
    viewer, editor = readers["shared-viktor"], readers["shared-edgar"]
    for client in (viewer, editor, viewer, editor):
        assert (PICK in live(client, LIST)) == (client is editor)
    for _ in range(2):
        assert '<html lang="en"' in live(viewer, "/topics/shared.one", **{"Accept-Language": "en"})
        assert '<html lang="zh"' in live(viewer, "/topics/shared.one", **{"Accept-Language": "zh"})
    for _ in range(2):
        assert "Health" in live(viewer, LIST)
        assert "Health" not in live(viewer, LIST, Cookie=f"{cookies(viewer)}; columns-topics=partitions")


def cookies(client: httpx.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def test_a_token_without_a_scope_gets_no_answer_of_one_that_has_it(web: LiveWeb) -> None:
    body = {"name": "shared-topics-only", "role": "admin", "scopes": ["topics"]}
    token = web.client.post("/v3/tokens", json=body).json()["token"]
    live(web.client, LIST)
    assert web.http(token).get(LIST, headers=LIVE).status_code == 403


def test_each_reader_gets_the_own_token_and_nobodys_name(readers: dict[str, httpx.Client]) -> None:
    tokens = {name: session_token(client) for name, client in readers.items()}
    assert len(set(tokens.values())) == len(tokens)
    for reader in ("shared-edith", "shared-edgar", "shared-vera"):
        text = live(readers[reader], "/topics/shared.one")
        assert tokens[reader] in text
        assert not any(token in text for name, token in tokens.items() if name != reader)
        assert not any(name in text for name in tokens)
        assert reader in readers[reader].get("/topics/shared.one").text


def test_a_message_is_not_shared_and_not_lost(web: LiveWeb, readers: dict[str, httpx.Client]) -> None:
    client = readers["shared-edith"]
    form = {"name": "shared.two", "csrf_token": session_token(client)}
    assert client.post("/topics", data=form).status_code == 303
    said = "Topic shared.two created"
    for each in (client, readers["shared-edgar"]):
        assert said not in live(each, "/topics/shared.two")
    assert said in client.get("/topics/shared.two").text
    web.client.delete(f"{web.cluster}/topics/shared.two")


def test_a_change_between_is_seen_by_all(web: LiveWeb, readers: dict[str, httpx.Client]) -> None:
    for number in range(3):
        for client in readers.values():
            assert f"shared.change.{number}" not in live(client, LIST)
        web.client.post(f"{web.cluster}/topics", json={"topic_name": f"shared.change.{number}"}).raise_for_status()
        for client in readers.values():
            assert f"shared.change.{number}" in live(client, LIST)
    for number in range(3):
        web.client.delete(f"{web.cluster}/topics/shared.change.{number}").raise_for_status()


@pytest.mark.parametrize(
    ("address", "maker"),
    [("/fragments/groups?q=shared-", "groups_view"), ("/groups/shared-group", "group_view")],
    ids=["list", "group"],
)
def test_groups_are_shared_until_this_process_changes_one(
    web: LiveWeb,
    node: CombinedNode,
    readers: dict[str, httpx.Client],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    maker: str,
) -> None:
    if web.client.get(f"{web.cluster}/topics/shared-read").status_code == 404:
        group_steps.new_topic(web, node, "shared-read", {0: 8})
    group_steps.commit(node, "shared-group", "shared-read", {0: 3})
    group_steps.shown(web, "/groups/shared-group", '<td class="num">5</td>', forget="shared-group")
    calls: list[str] = []
    found = getattr(groups, maker)
    monkeypatch.setattr(groups, maker, lambda *given: calls.append(maker) or found(*given))

    def is_shared() -> bool:  # unless the stamp has changed between the two
        calls.clear()
        parts_of(web)._made.clear()  # of an attempt when the brokers had not answered yet
        texts = [live(readers[name], address) for name in ("shared-vera", "shared-viktor")]
        return all('<td class="num">5</td>' in text for text in texts) and len(calls) <= 1

    kafka.wait_until(is_shared, 30, "two viewers got one answer", 0.05)
    assert "select-groups" not in live(readers["shared-vera"], address)
    assert "group-reset" not in live(readers["shared-vera"], address)
    web.client.post("/group-reset", data={"group": "shared-group", "plan": "shared-read,0,6", "confirmed": "yes"})
    kafka.wait_until(
        lambda: '<td class="num">2</td>' in live(readers["shared-viktor"], address), 30, "the new lag", 0.05
    )


def test_a_past_state_is_not_mixed_with_the_present(web: LiveWeb, readers: dict[str, httpx.Client]) -> None:
    client, before = readers["shared-vera"], web.services.cluster.image.offset
    web.client.post(f"{web.cluster}/topics", json={"topic_name": "shared.late"}).raise_for_status()
    for _ in range(2):
        assert "shared.late" in live(client, LIST)
        assert "shared.late" not in live(client, f"{LIST}&at_offset={before}")
    web.client.delete(f"{web.cluster}/topics/shared.late").raise_for_status()


def test_answers_are_bounded_and_failures_are_not_kept(web: LiveWeb, readers: dict[str, httpx.Client]) -> None:
    parts = parts_of(web)
    for number in range(shared_parts.ANSWERS_MAX + 10):
        live(readers["shared-vera"], f"{LIST}{number}")
    assert len(parts._made) <= shared_parts.ANSWERS_MAX
    for _ in range(2):
        assert web.client.get("/topics/shared.absent", headers=LIVE).status_code == 404
