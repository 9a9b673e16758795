"""`conclave.client` against the real web process, directly and through a proxy that loses requests and answers."""

import asyncio
import datetime as dt
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session as DatabaseSession

from app.db.base import utc_now
from app.db.models import ApiToken
from app.rest import idempotency, records
from conclave.client import (
    AsyncClient,
    BadRequestError,
    Client,
    ConclaveError,
    ConflictError,
    ForbiddenError,
    InternalError,
    NotFoundError,
    PreconditionFailedError,
    TooManyRequestsError,
    UnauthorizedError,
    UnprocessableError,
    UnreachableError,
    session,
)
from conclave.client.models import AlterEntry, AlterTopicEntry, ConfigToCreate, DryRunData, PartitionData
from conclave.contexts import Context, ContextError, Contexts, save_contexts
from conclave.kafka import ErrorCode
from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.app.rest.faulty_proxy import FaultyProxy, faulty_proxy
from tests.docs.markdown import DOCS, fenced
from tests.interop.kafka import PATIENCE_S, wait_until

_numbers = itertools.count()
EXAMPLES = fenced((DOCS / "rest-client.md").read_text(), "python")


@pytest.fixture
def client(web: LiveWeb) -> Iterator[Client]:
    with Client(web.url, ADMIN_TOKEN) as opened:
        yield opened


@pytest.fixture
def proxy(web: LiveWeb) -> Iterator[FaultyProxy]:
    with faulty_proxy(web.url) as running:
        yield running


@pytest.fixture
def through(web: LiveWeb, proxy: FaultyProxy) -> Iterator[Client]:
    cluster_id = web.cluster.rpartition("/")[2]
    with Client(proxy.url, ADMIN_TOKEN, cluster_id=cluster_id, retry_seconds=60) as opened:
        yield opened


def new_name() -> str:
    return f"client.{next(_numbers)}"


def test_the_examples_of_the_page_run_in_their_order(web: LiveWeb) -> None:
    name = new_name()
    for example in EXAMPLES:
        text = example.replace("http://127.0.0.1:8080", web.url).replace("the-api-token", ADMIN_TOKEN)
        exec(text.replace('"orders"', f'"{name}"'), {})


def test_a_topic_is_made_read_changed_and_deleted(client: Client) -> None:
    name = new_name()
    made = client.create_topic(
        topic_name=name, partitions_count=2, configs=[ConfigToCreate(name="retention.ms", value="1000")]
    )
    assert (made.topic_name, made.partitions_count, made.replication_factor) == (name, 2, 1)
    assert client.get_topic(name).topic_id == made.topic_id
    assert client.get_topic_config(name, "retention.ms").value == "1000"
    planned = client.delete_topic(name, validate_only=True)
    assert isinstance(planned, DryRunData)
    assert planned.changes[0].what == f"topic {name}"
    assert client.set_topic_config(name, "retention.ms", value="2000") is None
    assert client.get_topic_config(name, "retention.ms").value == "2000"
    with pytest.raises(BadRequestError):
        client.set_topic_config(name, "retention.ms", value=None)
    refused = client.alter_all_topic_configs(
        data=[
            AlterTopicEntry(topic_name=name, configs=[AlterEntry(name="retention.ms", value="3000")]),
            AlterTopicEntry(topic_name="client.absent", configs=[AlterEntry(name="retention.ms", value="1")]),
        ]
    )
    assert refused is not None
    assert [each.topic_name for each in refused.failures] == ["client.absent"]
    assert client.delete_topic(name) is None
    with pytest.raises(NotFoundError) as gone:
        client.get_topic(name)
    assert gone.value.kafka_error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_lists_come_page_by_page(client: Client) -> None:
    name = new_name()
    client.create_topic(topic_name=name, partitions_count=7)
    listed = client.list_partitions(name, page_size=3)
    assert [len(page.data) for page in listed.by_page()] == [3, 3, 1]
    assert [each.partition_id for each in listed] == list(range(7))
    client.delete_topic(name)
    past = client.metadata_offset
    assert past is not None
    assert name in [topic.topic_name for topic in client.list_topics(at_offset=past - 1)]


@pytest.mark.parametrize("name", ["a/b", "..", ".", "é x?#%&", "%2E", "a;b=c", "\N{SNOWMAN}", "a" * 300])
def test_a_name_of_any_characters_arrives_as_it_is(client: Client, name: str) -> None:
    client.set_group_config(name, "consumer.session.timeout.ms", value="50000")
    found = client.get_group_config(name, "consumer.session.timeout.ms")
    assert (found.consumer_group_id, found.value) == (name, "50000")
    client.reset_group_config(name, "consumer.session.timeout.ms")
    with pytest.raises(NotFoundError):
        client.get_group(name)


def test_a_lost_answer_of_a_creation_is_asked_for_again_with_the_same_key(
    proxy: FaultyProxy, through: Client, client: Client
) -> None:
    name = new_name()
    proxy.faults.extend(["lose", "drop", "gateway", "limit"])
    made = through.create_topic(topic_name=name)
    assert made.topic_id == client.get_topic(name).topic_id
    keys = {line for head in proxy.heads for line in head.split("\r\n") if line.lower().startswith("idempotency-key")}
    assert (len(proxy.heads), len(keys)) == (5, 1)


@pytest.mark.parametrize("is_made", [True, False], ids=["after-the-change", "before-the-change"])
def test_a_process_that_dies_in_the_middle_of_a_creation_leaves_one_topic(
    web: LiveWeb, client: Client, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    """What a process leaves that was killed: a key in use without an answer, and the change or not."""
    name = new_name()
    monkeypatch.setattr(idempotency, "RESUMED", dt.timedelta(0))
    real = web.services.actions.topics.create

    async def dies(*given: object, **named: object) -> object:
        if is_made:
            await real(*given, **named)
        raise SystemError

    with monkeypatch.context() as patched, Client(web.url, ADMIN_TOKEN, retry_seconds=0) as doomed:
        patched.setattr(web.services.actions.topics, "create", dies)
        patched.setattr(idempotency, "_release", lambda *_: None)
        with pytest.raises(InternalError):
            doomed.create_topic(topic_name=name, partitions_count=2, idempotency_key=f"key-{name}")
    made = client.create_topic(topic_name=name, partitions_count=2, idempotency_key=f"key-{name}")
    assert (made.topic_id, made.partitions_count) == (client.get_topic(name).topic_id, 2)
    again = client.create_topic(topic_name=name, partitions_count=2, idempotency_key=f"key-{name}")
    assert again == made


def test_a_topic_that_is_not_as_asked_for_is_no_effect_of_the_request(
    web: LiveWeb, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()
    with monkeypatch.context() as patched, Client(web.url, ADMIN_TOKEN, retry_seconds=0) as doomed:
        patched.setattr(web.services.actions.topics, "create", _dies)
        patched.setattr(idempotency, "_release", lambda *_: None)
        with pytest.raises(InternalError):
            doomed.create_topic(topic_name=name, partitions_count=2, idempotency_key=f"key-{name}")
    client.create_topic(topic_name=name, partitions_count=3)
    with Client(web.url, ADMIN_TOKEN, retry_seconds=0) as other, pytest.raises(ConflictError) as running:
        other.create_topic(topic_name=name, partitions_count=2, idempotency_key=f"key-{name}")
    assert running.value.retry_after_seconds == 1


async def _dies(*_: object, **__: object) -> None:
    raise SystemError


def test_a_change_without_a_key_is_repeated_only_when_it_had_no_effect(proxy: FaultyProxy, through: Client) -> None:
    name = new_name()
    through.create_topic(topic_name=name)
    proxy.faults.append("limit")
    through.set_topic_config(name, "retention.ms", value="1000")
    proxy.faults.append("lose")
    with pytest.raises(UnreachableError):
        through.set_topic_config(name, "retention.ms", value="2000")
    proxy.faults.extend(["drop", "gateway", "lose"])
    assert through.get_topic_config(name, "retention.ms").value == "2000", "a read is repeated"


def test_reads_wait_for_the_changes_of_their_client(proxy: FaultyProxy, through: Client) -> None:
    name = new_name()
    through.create_topic(topic_name=name)
    offset = through.metadata_offset
    assert offset is not None
    through.get_topic(name)
    assert f"min_offset={offset}" in proxy.heads[-1].split("\r\n")[0]
    list(through.list_topics(at_offset=offset, page_size=1_000))
    assert "min_offset" not in proxy.heads[-1].split("\r\n")[0], "a past state has no later changes"


def test_a_watch_resumes_behind_the_last_change(proxy: FaultyProxy, through: Client, client: Client) -> None:
    names = [new_name() for _ in range(3)]
    first = client.create_topic(topic_name=names[0])
    assert first is not None
    assert client.metadata_offset is not None
    proxy.faults.extend([600, "drop", 900])
    watching = through.watch(from_offset=client.metadata_offset - 1)
    client.create_topic(topic_name=names[1])
    client.create_topic(topic_name=names[2])
    seen = []
    for change in watching:
        seen.append(change.offset)
        if f"topic {names[2]}: created" in change.lines:
            break
    wanted = [each.offset for each in client.list_changes(from_offset=seen[0]) if each.offset <= seen[-1]]
    assert seen == wanted
    assert proxy.faults == type(proxy.faults)()


def test_a_watch_that_was_open_for_long_resumes_too(
    proxy: FaultyProxy, through: Client, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()
    client.create_topic(topic_name=new_name())
    assert client.metadata_offset is not None
    monkeypatch.setattr(records, "HEARTBEAT_SECONDS", 0.01)
    an_hour_per_request = SimpleNamespace(monotonic=lambda: 3_600.0 * len(proxy.heads))
    monkeypatch.setattr(session, "time", an_hour_per_request)
    proxy.faults.append(1_000)
    with ThreadPoolExecutor(1) as pool:
        watching = through.watch(from_offset=client.metadata_offset + 1)
        seen = pool.submit(lambda: any(f"topic {name}: created" in change.lines for change in watching))
        wait_until(lambda: len(proxy.heads) == 2 or seen.done(), PATIENCE_S, "the watch is resumed", 0.01)
        client.create_topic(topic_name=name)
        assert seen.result(PATIENCE_S)


def test_the_client_for_asyncio_does_the_same(web: LiveWeb, proxy: FaultyProxy) -> None:
    name = new_name()

    async def work() -> None:
        async with AsyncClient(proxy.url, ADMIN_TOKEN) as client:
            watching = client.watch()
            begun = asyncio.ensure_future(anext(watching))
            while not any("/watch" in head for head in proxy.heads):
                await asyncio.sleep(0.01)
            proxy.faults.extend(["lose", "drop"])
            made = await client.create_topic(topic_name=name, partitions_count=3)
            assert made.partitions_count == 3
            assert f"topic {name}: created" in (await begun).lines
            await watching.aclose()
            etag = await client.topic_etag(name)
            await client.grow_topic(name, partitions_count=4, if_match=etag)
            with pytest.raises(PreconditionFailedError):
                await client.delete_topic(name, if_match=etag)
            partitions: list[PartitionData] = [each async for each in client.list_partitions(name, page_size=2)]
            assert [each.partition_id for each in partitions] == [0, 1, 2, 3]

    asyncio.run(work())


def test_errors_have_the_members_of_the_problem(client: Client) -> None:
    name = new_name()
    client.create_topic(topic_name=name)
    with pytest.raises(BadRequestError) as exists:
        client.create_topic(topic_name=name)
    error = exists.value
    assert (error.status, error.error_code, error.kafka_error) == (400, 40002, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert error.instance.startswith("/requests/")
    assert error.members["kafka_code"] == 36
    with pytest.raises(UnprocessableError) as wrong:
        client.create_topic(topic_name=name, partitions_count="many")
    assert [each.pointer for each in wrong.value.errors] == ["/partitions_count"]
    client.create_topic(topic_name=new_name(), idempotency_key=f"key-{name}")
    with pytest.raises(UnprocessableError) as reused:
        client.create_topic(topic_name=new_name(), idempotency_key=f"key-{name}")
    assert reused.value.code == "idempotency-key-reused"


def test_an_active_group_is_a_conflict(client: Client) -> None:
    with pytest.raises(ConflictError) as refused:
        client.unregister_broker(1)
    assert refused.value.members["is_live"] is True


def test_an_expired_token_is_refused(web: LiveWeb, client: Client) -> None:
    name = new_name()
    text = client.create_token(name=name, role="viewer", expires_in_days=1).token
    assert text is not None
    with Client(web.url, text) as short:
        assert short.cluster_id
        with pytest.raises(ForbiddenError):
            short.create_topic(topic_name=name)
        web.call(web.services.database.write(_expire, name))
        with pytest.raises(UnauthorizedError):
            list(short.list_topics())


def _expire(session: DatabaseSession, name: str) -> None:
    session.execute(update(ApiToken).where(ApiToken.name == name).values(expires_at=utc_now() - dt.timedelta(days=1)))


def test_a_limit_that_lasts_longer_than_the_client_waits_is_an_error(proxy: FaultyProxy, web: LiveWeb) -> None:
    with Client(proxy.url, ADMIN_TOKEN, retry_seconds=0) as impatient:
        proxy.faults.append("limit")
        with pytest.raises(TooManyRequestsError) as limited:
            list(impatient.list_clusters())
        assert limited.value.retry_after_seconds == 0


@pytest.mark.parametrize(
    ("url", "what"),
    [("http://127.0.0.1:1", "refused"), ("http://nowhere.invalid", "nowhere.invalid")],
    ids=["nobody-listens", "no-such-host"],
)
def test_an_unknown_server_is_named(url: str, what: str) -> None:
    with Client(url, "token", retry_seconds=0) as client, pytest.raises(UnreachableError, match=what) as failed:
        list(client.list_clusters())
    assert isinstance(failed.value, ConclaveError)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("127.0.0.1:8080", "token"),
        ("ftp://127.0.0.1", "token"),
        ("http://", "token"),
        ("http://127.0.0.1/?a=b", "token"),
        ("http://127.0.0.1", ""),
        ("http://127.0.0.1", "to\nken"),
        ("http://127.0.0.1", "töken"),
    ],
)
def test_an_address_or_token_that_cannot_be_one_is_refused(url: str, token: str) -> None:
    with pytest.raises(ValueError):
        Client(url, token)


def test_an_answer_of_another_server_is_not_taken(web: LiveWeb) -> None:
    with Client(f"{web.url}/static", ADMIN_TOKEN) as client, pytest.raises(NotFoundError):
        list(client.list_clusters())


def test_a_context_has_address_and_token(web: LiveWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ContextError):
        Client.from_context()
    save_contexts(Contexts("here", {"here": Context("here", web.url, ADMIN_TOKEN)}))
    for client in (Client.from_context(), Client.from_context("here")):
        with client:
            assert client.cluster_id == web.cluster.rpartition("/")[2]
