"""The pages of schedules: a form, a preview with the next runs, and the change after it."""

import datetime as dt
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.reports import schedules, store, webhooks
from app.reports.models import ReportWebhook
from app.reports.schedules import ScheduleSpec
from app.reports.webhooks import Attempt, WebhookSettings
from tests.app.live import LiveWeb
from tests.app.reports.test_webhooks import Receiver

HTML = {"Accept": "text/html"}


def test_a_schedule_is_previewed_saved_shown_and_deleted(web: LiveWeb) -> None:
    form = {
        "name": "berlin",
        "cron": "30 6 * * mon",
        "time_zone": "Europe/Berlin",
        "on_change": "yes",
        "enabled": "yes",
    }
    blank = web.client.get("/reports/new-schedule", headers=HTML)
    assert (blank.status_code, 'name="cron"' in blank.text) == (200, True)
    preview = web.client.post("/reports/schedules", data=form, headers=HTML)
    assert preview.status_code == 200, preview.text
    assert preview.text.count("Next run: Mon ") == 5
    assert "06:30 CE" in preview.text
    assert "berlin" not in web.client.get("/reports", headers=HTML).text
    saved = web.client.post("/reports/schedules", data={**form, "confirmed": "yes"}, headers=HTML)
    assert saved.status_code in {200, 303}, saved.text
    assert "Europe/Berlin" in web.client.get("/reports", headers=HTML).text
    shown = web.client.get("/reports/schedules/berlin", headers=HTML)
    assert shown.text.count("<li>Mon ") == 5
    change = web.client.post("/reports/schedules", data={"name": "berlin", "cron": "30 6 * * mon"}, headers=HTML)
    assert "No run is planned while the schedule is disabled." in change.text
    removed = "/reports/schedules/berlin/delete"
    assert "Its reports remain." in web.client.post(removed, headers=HTML).text
    assert web.client.post(removed, data={"confirmed": "yes"}, headers=HTML).status_code in {200, 303}
    assert web.client.get("/reports/schedules/berlin", headers=HTML).status_code == 404


def test_a_wrong_schedule_is_refused_on_the_preview_with_the_reason(web: LiveWeb) -> None:
    right = {"name": "x", "cron": "0 2 * * *", "enabled": "yes", "confirmed": "yes"}
    for wrong, said in (
        ({"cron": "soon"}, "five fields are needed"),
        ({"time_zone": "Mars"}, "is not a time zone"),
        ({"name": "a b"}, "is not a name"),
        ({"topic_prefix": "a b"}, "starts no topic name"),
        ({"webhook_url": "http://10.0.0.1/"}, "webhooks are off"),
    ):
        answer = web.client.post("/reports/schedules", data={**right, **wrong}, headers=HTML)
        assert (answer.status_code, said in answer.text) == (422, True), answer.text
    assert web.client.get("/reports/schedules/x", headers=HTML).status_code == 404


@pytest.fixture
def receiver(web: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that the web process may call."""
    with Receiver() as server:
        settings = WebhookSettings("the-secret-of-all", (server.address,))
        monkeypatch.setattr(web.services.actions.reports, "_webhook", settings)
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def in_words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_schedule_shows_what_became_of_its_webhook(web: LiveWeb) -> None:
    """The requests are due in an hour, so that the web process sends none itself."""
    endings = [Attempt("delivered", 204), Attempt("failed", 404, "the receiver answered 404"), None]
    endings.append(Attempt("waiting", 503, "the receiver answered 503"))

    def fill(session: Session) -> None:
        spec = ScheduleSpec(cron="0 2 * * *", enabled=False, webhook_url="http://127.0.0.1:9/")
        schedule = schedules.put_schedule(session, "hooked", spec, "ann")
        for ending in endings:
            run = store.create_run(session, "tester", schedule=schedule)
            store.update_run(session, run, state="failed", finished_at=utc_now())
            hook = ReportWebhook(run_id=run, url="http://127.0.0.1:9/", body="{}", state="waiting", attempts=0)
            hook.due_at = utc_now() - dt.timedelta(days=1)
            session.add(hook)
            session.flush()
            if ending is None:
                hook.due_at = utc_now() + dt.timedelta(hours=1)
                continue
            claimed = webhooks.claim(session, utc_now())
            assert claimed is not None
            assert claimed.run_id == run
            webhooks.settle(session, run, ending, utc_now() + dt.timedelta(hours=1))

    web.call(web.services.database.write(fill))
    page = in_words(web.client.get("/reports/schedules/hooked", headers=HTML).text)
    assert "2 pending, 1 delivered, 1 given up." in page, page
    for said in ("delivered just now HTTP 204 1 none", "given up just now the receiver answered 404 1 none"):
        assert re.search(said.replace("just now", r"(just now|\d+ s ago)"), page), page
    assert re.search(r"pending none 0 \d{4}-", page), page
    listed = in_words(web.client.get("/reports", headers=HTML).text)
    assert re.search(r"pending report #\d+ (just now|\d+ s ago) the receiver answered 503, next attempt \d{4}-", listed)
    web.client.post("/reports/schedules/hooked/delete", data={"confirmed": "yes"}, headers=HTML)


def test_a_test_of_a_webhook_is_signed_marked_and_sent_once(web: LiveWeb, receiver: Receiver) -> None:
    form = {"name": "tried", "cron": "0 2 * * *", "webhook_url": f"http://{receiver.address}/x", "confirmed": "yes"}
    web.client.post("/reports/schedules", data=form, headers=HTML)
    receiver.statuses = [204, 503, "hang up"]
    notes = []
    for _ in range(3):
        answer = web.client.post("/reports/schedules/tried/test", headers=HTML)
        notes.append(in_words(web.client.get(answer.headers["location"], headers=HTML).text))
    assert "Test delivered: the receiver answered 204." in notes[0]
    assert "Test not delivered: the receiver answered 503." in notes[1]
    assert "Test not delivered: no answer:" in notes[2]
    assert len(receiver.seen) == 3, "a test is not sent again"
    headers, body = receiver.seen[0]
    said: dict[str, Any] = json.loads(body)
    assert (said["event"], said["test"], said["schedule"]) == ("placement_report.test", True, "tried")
    assert headers["Conclave-Report"] == "test"
    seconds, given = (part.partition("=")[2] for part in headers["Conclave-Signature"].split(","))
    expected = hmac.new(b"the-secret-of-all", f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(given, expected)
    web.client.post("/reports/schedules", data={**form, "webhook_url": ""}, headers=HTML)
    answer = web.client.post("/reports/schedules/tried/test", headers=HTML)
    refused = in_words(web.client.get(answer.headers["location"], headers=HTML).text)
    assert "No test was sent: schedule tried has no webhook." in refused
    assert web.client.post("/reports/schedules/none/test", headers=HTML).status_code == 404
    web.client.post("/reports/schedules/tried/delete", data={"confirmed": "yes"}, headers=HTML)
