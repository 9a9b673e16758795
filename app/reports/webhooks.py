"""Webhooks: one request to the address of a schedule when its report is worse than the one before.

The transaction that stores the result also stores the notification, one row per run, so a crash loses none. One process
at a time claims a row and sends it. It is sent again, after longer and longer delays, only if the receiver has surely
not taken it: no connection, or an answer 408, 429 or 5xx. If the connection breaks after the request was sent, or the
sending process dies, the state is `unconfirmed` and nothing is sent again, so a receiver never gets a run twice.

The request is a POST of JSON with the header `Conclave-Signature: t=SECONDS,v1=HEX`: HMAC-SHA256 with the setting
`webhook_secret` as the key over `SECONDS.BODY`. Redirects are not followed. Only hosts of the setting `webhook_hosts`
are called, so that no user of the dashboard can reach other addresses through it.
"""

import datetime as dt
import hashlib
import hmac
import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.reports import leases, store
from app.reports.models import ReportRun, ReportSchedule, ReportWebhook
from app.texts import phrase

DELAYS_SECONDS: Final = (10, 60, 300, 1800, 7200)
"""Delays before the second to the last attempt."""
TIMEOUT_SECONDS: Final = 10.0
SENDING_SECONDS: Final = 60.0
"""How long a process may take to send: the timeouts of connecting and reading, and the database."""
WORSE_IF_MORE: Final = ("offline", "under_min", "at_min", "under_replicated", "rack_violated", "worst_rack_down")
RETRY_STATUSES: Final = frozenset({408, 429})


class InvalidWebhookError(ValueError):
    """A webhook's address is not allowed. The text says why."""


class NotSentError(Exception):
    """The receiver has not taken the request; it may be sent again."""


class UnconfirmedError(Exception):
    """The request was sent and the receiver's answer is unknown."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended: the state that follows, the receiver's status if it answered, and what went wrong."""

    state: str
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The key of the signatures, empty for no webhooks; the hosts that may be called, as HOST or HOST:PORT."""

    secret: str = ""
    hosts: tuple[str, ...] = ()

    def check(self, url: str) -> None:
        """Raise InvalidWebhookError if this address must not be called."""
        if not self.secret or not self.hosts:
            raise InvalidWebhookError(
                phrase("webhooks are off: set webhook_secret and webhook_hosts in the configuration")
            )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as wrong:
            raise InvalidWebhookError(
                phrase("'%(url)s' is not an address: %(reason)s", url=url, reason=str(wrong))
            ) from wrong
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise InvalidWebhookError(
                phrase("'%(url)s' must be http:// or https:// with a host and without a user", url=url)
            )
        names = {parts.hostname, f"{parts.hostname}:{port or (443 if parts.scheme == 'https' else 80)}"}
        if names.isdisjoint(host.lower() for host in self.hosts):
            raise InvalidWebhookError(
                phrase(
                    "host '%(host)s' is not in webhook_hosts: %(hosts)s",
                    host=parts.netloc,
                    hosts=", ".join(self.hosts),
                )
            )


def _numbers(verdict: Mapping[str, Any]) -> dict[str, int]:
    racks, worst = verdict.get("rack_rule") or {}, verdict.get("worst_rack") or {}
    known = {**verdict, "rack_violated": racks.get("violated", 0), "worst_rack_down": worst.get("if_lost_down", 0)}
    return {name: int(known.get(name, 0)) for name in WORSE_IF_MORE}


def worse_numbers(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers of the verdict that are worse than in the report before: name, before, now."""
    old, new = _numbers(before), _numbers(now)
    return [{"name": name, "before": old[name], "now": new[name]} for name in WORSE_IF_MORE if new[name] > old[name]]


def store_result(session: Session, run_id: int, result: dict[str, Any], base_url: str, now: dt.datetime) -> bool:
    """Store the result of an active run, and its notification if it is due.

    `base_url` is where users reach the web process. Returns False when another process has ended the run.
    """
    if not leases.succeed(session, run_id, result):
        return False
    run = session.get(ReportRun, run_id)
    assert run is not None, "succeed has found it"
    schedule = None if run.schedule_id is None else session.get(ReportSchedule, run.schedule_id)
    before = store.latest_report(session, run_id, run.topic_prefix)
    if schedule is None or schedule.webhook_url is None or before is None or before.result is None:
        return True
    verdict = result["body"]["verdict"]
    worse = worse_numbers(before.result["body"]["verdict"], verdict)
    if worse:
        body = {
            "event": "placement_report.worse",
            "cluster_id": run.cluster_id,
            "schedule": schedule.name,
            "topic_prefix": run.topic_prefix,
            "report_id": run.id,
            "previous_report_id": before.id,
            "metadata_offset": run.image_offset,
            "worse": worse,
            "verdict": verdict,
            "url": f"{base_url}/reports/{run.id}",
        }
        text = json.dumps(body, sort_keys=True)
        session.add(
            ReportWebhook(run_id=run_id, url=schedule.webhook_url, body=text, state="waiting", attempts=0, due_at=now)
        )
    return True


def has_due(session: Session, now: dt.datetime) -> bool:
    """Return whether `claim` would find something."""
    chosen = ReportWebhook.state.in_(("waiting", "sending")) & (ReportWebhook.due_at <= now)
    return session.scalar(select(ReportWebhook.run_id).where(chosen).limit(1)) is not None


def claim(session: Session, now: dt.datetime) -> ReportWebhook | None:
    """Take the next notification that is due, for SENDING_SECONDS. Those whose sender has died become unconfirmed."""
    session.execute(
        update(ReportWebhook)
        .where(ReportWebhook.state == "sending", ReportWebhook.due_at <= now)
        .values(state="unconfirmed", error=str(phrase("The web process ended while it sent the request.")))
    )
    waiting = select(ReportWebhook).where(ReportWebhook.state == "waiting", ReportWebhook.due_at <= now)
    found = session.scalar(waiting.order_by(ReportWebhook.run_id).limit(1).with_for_update(skip_locked=True))
    if found is not None:
        found.state, found.attempts = "sending", found.attempts + 1
        found.due_at = now + dt.timedelta(seconds=SENDING_SECONDS)
        found.sent_at, found.status, found.error = now, None, None
        session.flush()
    return found


def settle(session: Session, run_id: int, attempt: Attempt, now: dt.datetime) -> None:
    """Note how an attempt ended: delivered, failed, unconfirmed, or waiting for the next one if any is left."""
    state = attempt.state
    found = session.get(ReportWebhook, run_id)
    if found is None or found.state != "sending":
        return
    if state == "waiting":
        if found.attempts > len(DELAYS_SECONDS):
            state = "failed"
        else:
            found.due_at = now + dt.timedelta(seconds=DELAYS_SECONDS[found.attempts - 1])
    found.state, found.status, found.error = state, attempt.status, attempt.error


def get_webhook(session: Session, run_id: int) -> ReportWebhook | None:
    """Return the notification of a run, or None."""
    return session.get(ReportWebhook, run_id)


def last_webhooks(session: Session) -> dict[int, ReportWebhook]:
    """Return the newest notification of each schedule that has one, by the schedule's id."""
    newest = (
        select(func.max(ReportWebhook.run_id))
        .join(ReportRun, ReportRun.id == ReportWebhook.run_id)
        .where(ReportRun.schedule_id.is_not(None))
        .group_by(ReportRun.schedule_id)
    )
    query = select(ReportRun.schedule_id, ReportWebhook).join(ReportRun, ReportRun.id == ReportWebhook.run_id)
    return {
        schedule_id: webhook
        for schedule_id, webhook in session.execute(query.where(ReportWebhook.run_id.in_(newest)))
        if schedule_id is not None
    }


def webhooks_of(session: Session, schedule_id: int, limit: int) -> tuple[Sequence[ReportWebhook], dict[str, int]]:
    """Return the newest notifications of a schedule, newest first, and the number of all by state."""
    own = select(ReportRun.id).where(ReportRun.schedule_id == schedule_id)
    query = select(ReportWebhook).where(ReportWebhook.run_id.in_(own)).order_by(ReportWebhook.run_id.desc())
    counts = (
        select(ReportWebhook.state, func.count()).where(ReportWebhook.run_id.in_(own)).group_by(ReportWebhook.state)
    )
    return session.scalars(query.limit(limit)).all(), dict(iter(session.execute(counts)))


def signature(secret: str, body: bytes, seconds: int) -> str:
    """Return the value of the header Conclave-Signature."""
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def body_of_test(cluster_id: str | None, schedule: str, topic_prefix: str, base_url: str) -> str:
    """Return the body of a test, which no receiver can take for a report: it has another event and no verdict."""
    return json.dumps(
        {
            "event": "placement_report.test",
            "test": True,
            "cluster_id": cluster_id,
            "schedule": schedule,
            "topic_prefix": topic_prefix,
            "url": f"{base_url}/reports",
        },
        sort_keys=True,
    )


def send(url: str, body: str, settings: WebhookSettings, seconds: int, report: str) -> Attempt:
    """Send one attempt. `seconds` is the time for the signature, `report` the header Conclave-Report."""
    try:
        settings.check(url)
        status = _post(url, body.encode(), signature(settings.secret, body.encode(), seconds), report)
    except InvalidWebhookError as refused:
        return Attempt("failed", error=str(refused))
    except NotSentError as early:
        return Attempt("waiting", error=str(phrase("no connection: %(reason)s", reason=str(early))))
    except UnconfirmedError as late:
        return Attempt("unconfirmed", error=str(phrase("no answer: %(reason)s", reason=str(late))))
    if 200 <= status < 300:
        return Attempt("delivered", status)
    state = "waiting" if status in RETRY_STATUSES or status >= 500 else "failed"
    return Attempt(state, status, f"the receiver answered {status}")


def _post(url: str, body: bytes, signed: str, report: str) -> int:
    parts = urlsplit(url)
    assert parts.hostname is not None, "check has found it"
    connection = (
        http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
    )
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Conclave",
        "Conclave-Signature": signed,
        "Conclave-Report": report,
    }
    try:
        try:
            connection.connect()
        except OSError as refused:
            raise NotSentError(str(refused)) from refused
        try:
            path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("POST", path, body, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException) as broken:
            raise UnconfirmedError(f"{type(broken).__name__}: {broken}") from broken
    finally:
        connection.close()
