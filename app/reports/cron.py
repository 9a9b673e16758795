"""When a schedule is due: five cron fields in a time zone."""

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator
from itertools import islice
from typing import Final

from apscheduler.triggers.cron import CronTrigger

from app.db.base import utc_now
from app.texts import phrase

EXAMPLE: Final = "0 2 * * *"
GRACE_SECONDS: Final = 3600
"""How late a run may start. A due time that was missed by more is skipped."""
PREVIEW: Final = 5
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week by cron's numbers: 0 and 7 are Sunday."""


class InvalidCronError(ValueError):
    """A cron expression is invalid. The text has it and the required form."""


class InvalidTimeZoneError(ValueError):
    """There is no such time zone. The text has its name and an example."""


def time_zone_of(name: str) -> dt.tzinfo:
    """Return the time zone of an IANA name, such as Europe/Berlin. Raises InvalidTimeZoneError."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as unknown:
        if name == "UTC":
            return dt.UTC  # also on machines without a database of time zones
        raise InvalidTimeZoneError(
            phrase(
                "'%(name)s' is not a time zone that this machine knows: a name such as UTC or Europe/Berlin is needed",
                name=name,
            )
        ) from unknown


def cron_trigger(cron: str, time_zone: str = "UTC") -> CronTrigger:
    """Parse five cron fields: minute, hour, day, month, weekday. Raises InvalidCronError, InvalidTimeZoneError.

    If day and weekday are both limited, both must match. A time that a change to daylight saving time skips is due at
    the same moment by the clock before the change.
    """
    zone = time_zone_of(time_zone)
    fields = cron.split()
    try:
        if len(fields) != len(("minute", "hour", "day", "month", "weekday")):
            raise ValueError(f"{len(fields)} fields")
        return CronTrigger.from_crontab(" ".join([*fields[:4], _named_days(fields[4])]), timezone=zone)
    except ValueError as wrong:
        raise InvalidCronError(
            phrase(
                "'%(cron)s' is not a schedule: five fields are needed, minute hour day month weekday, "
                "such as '%(example)s' (%(reason)s)",
                cron=cron,
                example=EXAMPLE,
                reason=str(wrong),
            )
        ) from wrong


def _named_days(field: str) -> str:
    """Return the weekdays by name: cron counts from Sunday, APScheduler from Monday."""
    parts = []
    for part in field.split(","):
        match = re.fullmatch(r"([0-7])(?:-([0-7]))?(?:/([1-9]))?", part)
        if match is None:
            parts.append(part)
            continue
        first, step = int(match[1]), int(match[3] or 1)
        last = int(match[2]) if match[2] else 6 if match[3] else first
        if last < first:
            raise ValueError(f"weekday {part} ends before it starts")
        parts += [DAYS[day] for day in range(first, last + 1, step)]
    return ",".join(dict.fromkeys(parts))


def next_dues(
    cron: str, time_zone: str = "UTC", *, now: dt.datetime | None = None, count: int = PREVIEW
) -> list[dt.datetime]:
    """Return the next times at which a schedule is due, in its time zone; fewer if there are no more."""
    return list(islice(_dues_after(cron_trigger(cron, time_zone), now or utc_now()), count))


def _dues_after(trigger: CronTrigger, moment: dt.datetime) -> Iterator[dt.datetime]:
    due = trigger.get_next_fire_time(None, moment)
    while due is not None:
        yield due
        due = trigger.get_next_fire_time(due, due + dt.timedelta(seconds=1))


def last_due(cron: str, time_zone: str, now: dt.datetime) -> dt.datetime:
    """Return the newest time at which a schedule was due, at most GRACE_SECONDS ago; otherwise the present time.

    So processes that are late by different delays name a scheduled run by the same time.
    """
    found = None
    for due in _dues_after(cron_trigger(cron, time_zone), now - dt.timedelta(seconds=GRACE_SECONDS)):
        if due > now:
            break
        found = due
    return found or now
