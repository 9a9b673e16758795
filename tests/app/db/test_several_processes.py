"""Two web processes on one PostgreSQL behind a proxy that retries, as docs/operations.md describes production."""

import datetime as dt
import itertools
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.date import DateTrigger
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.actions import election_store, long_elections
from app.actions.election_store import LongElection
from app.cluster import elections, epoch_keeper
from app.cluster.partitions import Outcome, Partition, PartitionAdmin
from app.db.base import utc_now
from app.db.models import ApiToken, LongElectionRecord, QuorumEpoch
from app.reports import cron, scheduler
from app.reports import schedules as report_schedules
from app.reports.executor import plan_store
from app.reports.models import ReportRun
from app.reports.runner import JobFailedError, ReportRunner
from app.reports.schedules import ScheduleSpec
from app.security.caller_shares import LEASE_SECONDS, PARTS, agree
from kraft_core.clients.admin.partitions import ElectionType
from tests.app.db.servers import postgresql_server
from tests.app.db.two_webs import ATTEMPTS_MAX, Pair, RetryingProxy
from tests.app.live import ADMIN_TOKEN, Browser, CombinedNode, LiveWeb
from tests.app.security.test_logins import FORM, add_user, login
from tests.interop import kafka

pytestmark = pytest.mark.postgresql
END = "topic rolling-end: created"
SCHEDULES = 9
CONNECTIONS = 160
STREAMS_MAX = CONNECTIONS // 4
"""Event streams of one caller at both processes together."""


@pytest.fixture(scope="module")
def pair(node: CombinedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with postgresql_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.web.connections_allowed", lambda: CONNECTIONS)
        patch.setattr(epoch_keeper, "AGREE_SECONDS", 0.1)
        patch.setattr(scheduler, "FOLLOW_SECONDS", 0.2)
        patch.setattr(scheduler, "BUSY_SECONDS", 0.05)
        made = Pair(tmp_path_factory.mktemp("pair"), node.bootstrap, server.url)
        made.webs[0].wait_for_broker()
        yield made
        made.stop()


@contextmanager
def clients(*works: Callable[[], None]) -> Iterator[None]:
    """Repeat each of `works` in a thread of its own, until the end of the block and once more."""
    done, errors = threading.Event(), []
    turns = [threading.Event() for _ in works]

    def repeat(work: Callable[[], None], turned: threading.Event) -> None:
        try:
            while not done.is_set():
                work()
                turned.set()
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            errors.append(error)
            turned.set()

    threads = [threading.Thread(target=repeat, args=each) for each in zip(works, turns, strict=True)]
    for thread in threads:
        thread.start()
    try:
        for turned in turns:
            assert turned.wait(60)
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join(120)
    assert not errors, errors


@contextmanager
def schedules(pair: Pair) -> Iterator[None]:
    """Let schedules be due one after another. At the end each has started one report."""
    names = [f"rolling-{number:02}" for number in range(SCHEDULES)]
    dues = {f"{number} 0 1 1 *": utc_now() + dt.timedelta(seconds=number / 3) for number in range(SCHEDULES)}
    real = cron.cron_trigger

    def trigger(text: str, time_zone: str = "UTC") -> BaseTrigger:
        found = real(text, time_zone)
        return OrTrigger([DateTrigger(dues[text]), found]) if text in dues else found

    async def fail(_: ReportRunner, _run_id: int, *_source: object) -> None:
        raise JobFailedError("INTERNAL", "no report is computed here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReportRunner, "_make", fail)
        for module in (cron, scheduler):
            patch.setattr(module, "cron_trigger", trigger)
        database = pair.webs[0].services.database
        for name, text in zip(names, dues, strict=True):
            database.write_now(report_schedules.put_schedule, name, ScheduleSpec(cron=text), "ann")
        yield
        wanted = {f"schedule {name}": 1 for name in names}

        def started() -> dict[str, int]:
            count = select(ReportRun.requested_by, func.count()).group_by(ReportRun.requested_by)
            found = pair.webs[0].services.database.write_now(lambda session: session.execute(count).all())
            return {by: runs for by, runs in found if by in wanted}

        kafka.wait_until(lambda: len(started()) == SCHEDULES, 90, "each schedule has started a report", 0.1)
        assert started() == wanted
        for name in names:
            assert pair.webs[0].client.delete(f"{pair.webs[0].cluster}/report-schedules/{name}").status_code == 204


@contextmanager
def plan(pair: Pair) -> Iterator[None]:
    """Let a process hold the lease of a plan. At the end the plan is continued by the process that has it then."""
    web = pair.webs[0]
    assert web.client.post(f"{web.cluster}/topics", json={"topic_name": "rolling.plan"}).status_code == 201
    moves = {"version": 1, "partitions": [{"topic": "rolling.plan", "partition": 0, "replicas": [1]}]}
    made = web.client.post(f"{web.cluster}/plans", json={"reassignment": moves})
    assert made.status_code == 201, made.text
    address, plan_id = urlsplit(made.headers["location"]).path, made.json()["plan_id"]
    cluster_id = str(web.services.cluster.cluster_id)

    def pause_at_once(session: Session) -> None:
        for change in (plan_store.approve, plan_store.start, plan_store.pause):
            change(session, cluster_id, plan_id, "ann")

    def owner() -> str | None:
        found = pair.webs[0].services.database.write_now(plan_store.get, cluster_id, plan_id)
        return None if found is None else found.owner

    web.services.database.write_now(pause_at_once)
    kafka.wait_until(owner, 60, "a process has the plan", 0.05)
    yield
    web = pair.webs[0]
    assert web.client.post(f"{address}:resume", json={}).status_code == 200
    kafka.wait_until(lambda: web.client.get(address).json()["state"] == "done", 60, "the plan has ended", 0.1)
    events = [each["event"] for each in web.client.get(f"{address}/events").json()["data"]]
    assert "continued" in events, events
    assert web.client.delete(f"{web.cluster}/topics/rolling.plan").status_code == 204


@contextmanager
def open_page(pair: Pair, client: httpx.Client) -> Iterator[None]:
    """Keep the event stream of a page open, as a browser does. At the end it brings the newest state."""
    offsets, statuses, wanted = list[int](), list[int](), threading.Event()

    def browse() -> None:
        while not wanted.is_set():
            with (
                suppress(httpx.RemoteProtocolError),
                client.stream("GET", "/events", headers={"Accept": "text/event-stream"}) as stream,
            ):
                statuses.append(stream.status_code)
                if stream.status_code != 200:
                    return  # a browser does not connect again after such an answer
                for line in stream.iter_lines():
                    if line.startswith("data: {"):
                        offsets.append(json.loads(line[6:])["offset"] or 0)
                    if wanted.is_set():
                        break

    browsing = threading.Thread(target=browse, daemon=True)
    browsing.start()
    kafka.wait_until(lambda: offsets or statuses not in ([], [200]), 60, "the page has its first event", 0.02)
    yield
    web = pair.webs[0]
    newest = int(web.client.get(f"{web.cluster}/topics").headers["X-Metadata-Offset"])
    kafka.wait_until(lambda: offsets[-1] >= newest or not browsing.is_alive(), 60, "the page is current", 0.05)
    wanted.set()
    browsing.join(60)
    assert set(statuses) == {200}
    assert len(statuses) > 1, "the stream ended with its process, and was opened again"


def test_no_call_fails_while_one_process_after_the_other_is_restarted(pair: Pair) -> None:
    web = pair.webs[0]
    add_user(web, "nora", "editor")
    topics = f"{web.cluster}/topics"
    watched, made, statuses = list[str](), list[str](), set[int]()
    with ExitStack() as stack:
        proxy = RetryingProxy(pair.ports)
        stack.callback(proxy.close)

        def client(token: str | None = None) -> httpx.Client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return stack.enter_context(httpx.Client(base_url=proxy.url, headers=headers, timeout=90))

        of_session, of_token, maker, watcher = client(), client(ADMIN_TOKEN), client(ADMIN_TOKEN), client(ADMIN_TOKEN)
        login(web, "nora", client=of_session)
        begun_at = web.client.get(topics).headers["X-Metadata-Offset"]

        def read_with_a_session() -> None:
            assert of_session.get("/topics", headers=FORM).status_code == 200

        def read_with_a_token() -> None:
            assert of_token.get(topics).status_code == 200

        def log_in() -> None:
            with Browser(base_url=proxy.url, timeout=90) as new:
                assert login(web, "nora", client=new).last.status_code == 303

        def make_a_topic() -> None:
            name = f"rolling-{len(made)}"
            answer = maker.post(topics, json={"topic_name": name}, headers={"Idempotency-Key": name})
            assert answer.status_code == 201, answer.text
            made.append(name)

        def watch() -> None:
            last = begun_at
            while END not in watched:
                headers = {"Last-Event-ID": last}
                with (
                    suppress(httpx.RemoteProtocolError),  # the stream ends with its process, and is resumed
                    watcher.stream("GET", f"{web.cluster}/metadata/watch", headers=headers) as stream,
                ):
                    statuses.add(stream.status_code)
                    for line in stream.iter_lines():
                        if line.startswith("id:"):
                            last = line[3:].strip()
                        elif line.startswith("data:"):
                            watched.extend(json.loads(line[5:])["lines"])
                            if END in watched:
                                break

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        with (
            schedules(pair),
            plan(pair),
            open_page(pair, of_session),
            clients(read_with_a_session, read_with_a_token, log_in, make_a_topic),
        ):
            pair.restart(0)
            pair.restart(1)
        assert maker.post(topics, json={"topic_name": "rolling-end"}).status_code == 201
        watching.join(60)
    assert_streams_are_limited(pair, "greedy-later")
    doomed = [{"topic_name": name} for name in (*made, "rolling-end")]
    deleted = pair.webs[0].client.post(f"{topics}:delete", json={"data": doomed[:1_000]})
    assert deleted.status_code < 300, "other tests use the node too"
    assert statuses == {200}
    lines = [line for line in watched if line.startswith("topic rolling-") and line.endswith(": created")]
    assert lines == [*(f"topic {name}: created" for name in made), END]


def test_wrong_logins_at_one_process_count_at_the_other(pair: Pair) -> None:
    one, other = pair.webs
    add_user(one, "otto")

    def status(web: LiveWeb, password: str) -> int:
        return login(web, "otto", password).last.status_code

    assert [status(web, "wrong") for web in (one, other, one)] == [401] * ATTEMPTS_MAX
    assert (status(one, "wrong"), status(other, "wrong")) == (429, 429)


def new_token(web: LiveWeb, name: str) -> str:
    made = web.client.post("/v3/tokens", json={"name": name, "role": "viewer"})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


def open_streams(webs: Iterable[LiveWeb], token: str, opened: ExitStack) -> list[int]:
    """Open an event stream at each of `webs` in turn. Return the status of each answer."""
    statuses = []
    request = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    for web in webs:
        connection = opened.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=60))
        connection.sendall(request)
        statuses.append(int(connection.recv(65_536).split()[1]))
    return statuses


def assert_streams_are_limited(pair: Pair, name: str) -> None:
    token = new_token(pair.webs[0], name)
    with ExitStack() as opened:
        webs = itertools.islice(itertools.cycle(pair.webs), STREAMS_MAX)
        assert open_streams(webs, token, opened) == [200] * STREAMS_MAX
        assert open_streams(pair.webs, token, opened) == [429] * 2
        other = new_token(pair.webs[0], f"not-{name}")
        assert open_streams(pair.webs, other, opened) == [200] * 2


def test_a_caller_has_no_more_streams_at_two_processes_than_at_one(pair: Pair) -> None:
    assert_streams_are_limited(pair, "greedy")


def test_the_share_of_a_killed_process_returns_with_its_lease(pair: Pair) -> None:
    database = pair.webs[0].services.database
    token = new_token(pair.webs[0], "survivor")
    token_id = database.write_now(lambda session: session.scalar(select(ApiToken.id).filter_by(name="survivor")))
    holder, free = f"token:{token_id}", STREAMS_MAX // PARTS

    def killed(leased_at: dt.datetime) -> int:
        """Lease all that can be leased in the name of a third process, which never extends it."""
        wanted = {"streams": {holder: STREAMS_MAX}}
        return database.write_now(agree, "killed", {"streams": (free, STREAMS_MAX)}, wanted, leased_at)["streams"][
            holder
        ]

    with ExitStack() as opened:
        assert killed(utc_now()) == STREAMS_MAX - 2 * free
        assert open_streams([pair.webs[0]] * (free + 1), token, opened) == [200] * free + [429]
        killed(utc_now() - dt.timedelta(seconds=LEASE_SECONDS + 1))
        kafka.wait_until(lambda: open_streams(pair.webs[:1], token, opened) == [200], 60, "its share is back", 0.1)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Make an election of more than two partitions a long one, whose second batch waits for this event."""
    release = threading.Event()
    monkeypatch.setattr(elections, "BATCH", 2)
    monkeypatch.setattr(long_elections, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(long_elections, "SAVE_SECONDS", 0.02)
    real, answered = PartitionAdmin.elect_leaders, list[Any]()

    async def elect(self: PartitionAdmin, election: ElectionType, partitions: Sequence[Partition]) -> Outcome:
        if answered and not release.is_set():
            raise ConnectionError("the controller is away")
        answered.append(partitions)
        return await real(self, election, partitions)

    monkeypatch.setattr(PartitionAdmin, "elect_leaders", elect)
    yield release
    release.set()


def test_an_election_that_one_process_holds_is_known_to_the_other(pair: Pair, waiting: threading.Event) -> None:
    one, other = (web.client for web in pair.webs)
    cluster = pair.webs[0].cluster
    elected = {"partitions": [{"topic_name": name, "partition_id": 0} for name in ("no-1", "no-2", "no-3")]}
    begun = one.post(f"{cluster}/leaders:elect", json=elected)
    assert begun.status_code == 202, begun.text
    address = urlsplit(begun.headers["location"]).path

    def state(client: httpx.Client) -> tuple[str, int, str | None]:
        found = client.get(address).json()
        return found["state"], found["refused_count"], found["waits_for"]

    half = ("running", 2, "the controller is away")
    kafka.wait_until(lambda: state(other) == half, 60, "the other process knows of the first batch", 0.05)
    assert other.post(f"{cluster}/leaders:elect", json=elected).status_code == 409
    waiting.set()
    kafka.wait_until(lambda: state(other) == ("done", 3, None), 60, "the other process knows of the end", 0.05)
    kafka.wait_until(lambda: state(one) == ("done", 3, None), 60, "and the one that held it", 0.05)
    results = [client.get(f"{address}/partitions").json()["data"] for client in (one, other)]
    for result in results:
        assert [(each["state"], each["message"]) for each in result] == [
            ("refused", f"No such topic as no-{number}") for number in (1, 2, 3)
        ]


def test_an_election_whose_process_was_killed_has_stopped_for_both(pair: Pair) -> None:
    database, election_id = pair.webs[0].services.database, secrets.token_hex(8)
    killed = LongElection(
        id=election_id,
        election=ElectionType.PREFERRED,
        by="ann",
        partitions=[("orders", 0)],
        leaders_before={1: 7},
        begun_at=utc_now(),
    )
    assert database.write_now(election_store.begin, killed) is None
    assert database.write_now(election_store.begin, killed) == election_id
    past = update(LongElectionRecord).values(lease_until=utc_now() - dt.timedelta(seconds=1))
    database.write_now(lambda session: session.execute(past))
    for web in pair.webs:
        found = web.client.get(f"{web.cluster}/elections/{election_id}").json()
        assert found["state"] == "stopped"
        assert found["stopped_by"] == "The web process that held the election has ended."
        assert next(each for each in found["brokers"] if each["broker_id"] == 1)["leaders_before"] == 7


def test_what_one_process_observed_of_an_epoch_is_shown_by_both(pair: Pair) -> None:
    def shown(web: LiveWeb) -> int | None:
        newest = web.client.get(f"{web.cluster}/quorum/epochs").json()["data"][0]
        return newest["leaderless_ms"]

    def observe(session: Session) -> None:
        newest = session.scalar(select(func.max(QuorumEpoch.epoch)))
        session.execute(update(QuorumEpoch).where(QuorumEpoch.epoch == newest).values(leaderless_ms=4_321))

    pair.webs[0].services.database.write_now(observe)
    for web in pair.webs:
        kafka.wait_until(lambda web=web: shown(web) == 4_321, 60, "it is shown", 0.1)
