"""Which configs throttle the partitions of a plan, as kafka-reassign-partitions sets them, and how they are cleared.

Source: ReassignPartitionsCommand.calculateLeaderThrottles, calculateFollowerThrottles, modifyInterBrokerThrottle,
modifyLogDirThrottle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from app.cluster.partitions import Partition
from app.reports.executor.plan import CLEARED, LEFT, SET, SETTING, Alter, Row, Setting, SettingKey
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import MetadataImage

LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
CORDONED: Final = "cordoned.log.dirs"
ALL: Final = "*"
VALUE_BYTES_MAX: Final = 30_000
"""A longer list becomes `*`, all replicas of the topic: the controller refuses values above 32,767 bytes."""


def cordon_value(now: str | None, log_dirs: Iterable[str]) -> str:
    """Return cordoned.log.dirs with these directories added, `*` without any: then all of the broker are cordoned."""
    added = list(log_dirs)
    kept = [each.strip() for each in (now or "").split(",") if each.strip()]
    return ALL if not added or ALL in kept else ",".join(dict.fromkeys([*kept, *added]))


def wanted_rates(rows: Iterable[Row], throttle: int) -> dict[SettingKey, str]:
    """Return the rates of all brokers that the rows copy from or to, and of those that copy between directories."""
    brokers: set[tuple[int, str]] = set()
    for row in rows:
        if row.adding:
            brokers.update((each, name) for each in (*row.original, *row.proposed) for name in RATES)
        brokers.update((each, LOG_DIR_RATE) for each in row.wanted_dirs)
    return {(BROKER, str(each), name): str(throttle) for each, name in sorted(brokers)}


def wanted_lists(rows: Iterable[Row], image: MetadataImage) -> dict[SettingKey, str]:
    """Return the throttled replicas of the rows' topics, added to those that the topics have already."""
    found: dict[SettingKey, set[str]] = {}
    for row in rows:
        if row.adding:
            found.setdefault((TOPIC, row.topic, LEADERS), set()).update(f"{row.partition}:{b}" for b in row.original)
            found.setdefault((TOPIC, row.topic, FOLLOWERS), set()).update(f"{row.partition}:{b}" for b in row.adding)
    return {key: _joined(entries, current(image, key)) for key, entries in found.items()}


def _joined(entries: set[str], now: str | None) -> str:
    kept = {each.strip() for each in (now or "").split(",")} - {""}
    text = ",".join(sorted(kept | entries))
    return ALL if ALL in kept or len(text) > VALUE_BYTES_MAX else text


def current(image: MetadataImage, key: SettingKey) -> str | None:
    """Return the value that the resource itself has, None if it is not set."""
    return image.configs.of(key[0], key[1]).get(key[2])


def to_set(
    settings: Mapping[SettingKey, Setting], wanted: Mapping[SettingKey, str], image: MetadataImage
) -> dict[SettingKey, Setting]:
    """Return the settings that are missing or have another value, with what each config has before the plan."""
    found = {}
    for key, value in wanted.items():
        known = settings.get(key)
        if known is None or known.state in {CLEARED, LEFT}:
            kind, name, config = key
            before = current(image, key)
            found[key] = Setting(resource_type=kind, resource_name=name, name=config, before=before, ours=(value,))
        elif known.ours[-1] != value:
            found[key] = replace(known, ours=(*known.ours, value), state=SETTING)
    return found


def setting_step(settings: Iterable[Setting]) -> Alter | None:
    """Return the step that sets all configs in state `setting` but cordons, None if there are none."""
    changes: dict[tuple[int, str], dict[str, str | None]] = {}
    for each in settings:
        if each.state == SETTING and each.name != CORDONED:
            changes.setdefault((each.resource_type, each.resource_name), {})[each.name] = each.ours[-1]
    return Alter(changes) if changes else None


def to_clear(
    settings: Mapping[SettingKey, Setting], image: MetadataImage, keep: Iterable[SettingKey]
) -> tuple[dict[SettingKey, Setting], Alter | None]:
    """Return the settings that need no step any more, and the step that restores the others but `keep`.

    A config with a value that is not the plan's has been changed by another caller and is left.
    """
    kept = set(keep)
    settled: dict[SettingKey, Setting] = {}
    changes: dict[tuple[int, str], dict[str, str | None]] = {}
    for key, each in settings.items():
        if key in kept or each.state not in {SETTING, SET}:
            continue
        now = current(image, key)
        if not _exists(image, key) or now == each.before:
            settled[key] = replace(each, state=CLEARED)
        elif now not in each.ours:
            settled[key] = replace(each, state=LEFT)
        else:
            changes.setdefault((each.resource_type, each.resource_name), {})[each.name] = each.before
    return settled, Alter(changes, clears=True) if changes else None


def _exists(image: MetadataImage, key: SettingKey) -> bool:
    kind, name, _ = key
    return name in image.topics.by_name if kind == TOPIC else int(name) in image.cluster.brokers


def throttled_topics(rows: Mapping[Partition, Row], chosen: Iterable[Row]) -> list[Row]:
    """Return all rows of the topics of `chosen`."""
    names = {row.topic for row in chosen}
    return [row for row in rows.values() if row.topic in names]
