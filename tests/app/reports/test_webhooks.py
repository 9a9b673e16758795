"""Webhooks: when one is due, what is sent, and never twice."""

import asyncio
import datetime as dt
import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from app.db.base import utc_now
from app.db.database import Database
from app.reports import schedules, store, webhooks
from app.reports.models import ReportWebhook
from app.reports.schedules import ScheduleSpec
from app.reports.upkeep import ReportUpkeep, Retention
from app.reports.webhooks import InvalidWebhookError, WebhookSettings, store_result, worse_numbers

GOOD = {"offline": 0, "under_min": 0, "at_min": 0, "under_replicated": 0, "rack_rule": None, "worst_rack": None}


class Receiver(ThreadingHTTPServer):
    """A receiver of webhooks that answers with `statuses` in turn, then 204; "hang up" closes the connection."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int | str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:  # the name is http.server's
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(({"path": self.path, **self.headers}, body))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if isinstance(status, int):
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def result(**verdict: Any) -> dict[str, Any]:
    return {"header": {}, "body": {"verdict": {**GOOD, **verdict}}}


def worse_run(database: Database, url: str | None, *, worse: bool = True) -> int:
    """Return the second run of a schedule, whose verdict is worse than that of the first."""
    database.write_now(schedules.put_schedule, "s", ScheduleSpec(cron="0 2 * * *", webhook_url=url), "ann")
    for number, offline in enumerate((0, 2 if worse else 0)):
        due = utc_now() + dt.timedelta(seconds=number)
        run_id = database.write_now(schedules.create_due_run, "s", "0 2 * * *", "UTC", due)
        database.write_now(store.update_run, run_id, cluster_id="c", image_offset=7)
        assert database.write_now(store_result, run_id, result(offline=offline), "http://here", utc_now())
    return run_id


def upkeep(database: Database, folder: Path, *hosts: str) -> ReportUpkeep:
    return ReportUpkeep(database, folder, Retention(), WebhookSettings("the-secret-of-all", hosts))


def sent(database: Database, run_id: int) -> ReportWebhook:
    found = database.write_now(webhooks.get_webhook, run_id)
    assert found is not None
    return found


def make_due(database: Database, run_id: int) -> None:
    def now(session: Any) -> None:
        session.get(ReportWebhook, run_id).due_at = utc_now()

    database.write_now(now)


def test_a_worse_verdict_is_signed_and_delivered_once_whichever_process_sends_it(
    sqlite: Database, tmp_path: Path, receiver: Receiver
) -> None:
    run_id = worse_run(sqlite, f"http://{receiver.address}/hook?a=b")
    processes = [upkeep(sqlite, tmp_path, receiver.address) for _ in range(2)]

    async def scenario() -> None:
        await asyncio.gather(*(each.send_next() for each in processes))
        assert not await processes[0].send_next()

    asyncio.run(scenario())
    ((headers, body),) = receiver.seen
    said = json.loads(body)
    assert (said["schedule"], said["report_id"], said["metadata_offset"]) == ("s", run_id, 7)
    assert said["worse"] == [{"name": "offline", "before": 0, "now": 2}]
    assert said["url"] == f"http://here/reports/{run_id}"
    assert headers["path"] == "/hook?a=b"
    seconds, given = (part.partition("=")[2] for part in headers["Conclave-Signature"].split(","))
    expected = hmac.new(b"the-secret-of-all", f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(given, expected)
    assert (sent(sqlite, run_id).state, sent(sqlite, run_id).attempts) == ("delivered", 1)


def test_a_refusal_is_retried_with_growing_delays_until_it_fails(
    sqlite: Database, tmp_path: Path, receiver: Receiver
) -> None:
    run_id = worse_run(sqlite, f"http://{receiver.address}/")
    receiver.statuses = [503] * 9
    sender = upkeep(sqlite, tmp_path, "127.0.0.1")
    delays = []
    while sent(sqlite, run_id).state == "waiting":
        make_due(sqlite, run_id)
        assert asyncio.run(sender.send_next())
        assert not asyncio.run(sender.send_next()), "the next attempt is not due yet"
        delays.append((sent(sqlite, run_id).due_at - utc_now()).total_seconds())
    assert [round(delay, -1) for delay in delays[:-1]] == list(webhooks.DELAYS_SECONDS)
    assert (sent(sqlite, run_id).state, sent(sqlite, run_id).error) == ("failed", "the receiver answered 503")
    assert len(receiver.seen) == len(webhooks.DELAYS_SECONDS) + 1
    assert len({body for _, body in receiver.seen}) == 1


@pytest.mark.parametrize(("status", "state"), [(404, "failed"), (302, "failed"), ("hang up", "unconfirmed")])
def test_what_a_retry_cannot_mend_or_may_repeat_is_not_sent_again(
    sqlite: Database, tmp_path: Path, receiver: Receiver, status: int | str, state: str
) -> None:
    run_id = worse_run(sqlite, f"http://{receiver.address}/")
    receiver.statuses = [status]
    sender = upkeep(sqlite, tmp_path, "127.0.0.1")
    asyncio.run(sender.send_next())
    make_due(sqlite, run_id)
    assert not asyncio.run(sender.send_next())
    assert (sent(sqlite, run_id).state, len(receiver.seen)) == (state, 1)


def test_a_receiver_that_is_away_is_tried_again(sqlite: Database, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        run_id = worse_run(sqlite, f"http://127.0.0.1:{unused.getsockname()[1]}/")
        asyncio.run(upkeep(sqlite, tmp_path, "127.0.0.1").send_next())
    assert sent(sqlite, run_id).state == "waiting"
    assert "no connection" in (sent(sqlite, run_id).error or "")


def test_a_webhook_whose_sender_has_died_is_unconfirmed(sqlite: Database, tmp_path: Path, receiver: Receiver) -> None:
    run_id = worse_run(sqlite, f"http://{receiver.address}/")
    assert sqlite.write_now(webhooks.claim, utc_now()) is not None
    make_due(sqlite, run_id)
    assert not asyncio.run(upkeep(sqlite, tmp_path, "127.0.0.1").send_next())
    assert (sent(sqlite, run_id).state, receiver.seen) == ("unconfirmed", [])


def test_no_webhook_without_an_address_or_for_a_verdict_that_is_not_worse(sqlite: Database) -> None:
    assert sqlite.write_now(webhooks.get_webhook, worse_run(sqlite, None)) is None
    assert sqlite.write_now(webhooks.get_webhook, worse_run(sqlite, "http://127.0.0.1/", worse=False)) is None


def test_racks_are_compared_too() -> None:
    before = {**GOOD, "rack_rule": {"violated": 1}, "worst_rack": {"if_lost_down": 1}}
    now = {**GOOD, "rack_rule": {"violated": 3}, "worst_rack": {"if_lost_down": 2}}
    assert [row["name"] for row in worse_numbers(before, now)] == ["rack_violated", "worst_rack_down"]
    assert worse_numbers(now, before) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://10.0.0.1/", "is not in webhook_hosts: hooks.example.com, 127.0.0.1:9000"),
        ("http://127.0.0.1:9001/", "is not in webhook_hosts"),
        ("http://hooks.example.com.evil.org/", "is not in webhook_hosts"),
        ("ftp://hooks.example.com/", "must be http:// or https://"),
        ("http://me:pw@hooks.example.com/", "without a user"),
        ("https://", "must be http:// or https://"),
        ("http://hooks.example.com:99999/", "is not an address"),
    ],
)
def test_only_allowed_hosts_are_called(url: str, said: str) -> None:
    settings = WebhookSettings("the-secret-of-all", ("hooks.example.com", "127.0.0.1:9000"))
    settings.check("https://Hooks.example.com/x")
    settings.check("http://127.0.0.1:9000/x")
    with pytest.raises(InvalidWebhookError) as refused:
        settings.check(url)
    assert said in str(refused.value)


def test_without_settings_webhooks_are_off() -> None:
    with pytest.raises(InvalidWebhookError, match="set webhook_secret and webhook_hosts"):
        WebhookSettings().check("https://example.com/")
