"""The topics of a snapshot as columns of numpy."""

from collections.abc import Sequence

import numpy as np

from app.reports.aggregates import TOPIC_RANKINGS, TOPICS_LISTED, Brokers, TopicRow
from app.reports.columns import Array, Chunk, codes_table
from app.reports.states import LEADER, TARGET, PartitionState

FIELDS = TopicRow._fields[1:]


class TopicColumns:
    """Counts topics chunk by chunk: a row per column of TopicRow, with the topic's index instead of its name."""

    def __init__(self, states: Sequence[PartitionState], brokers: Brokers) -> None:
        self._codes = codes_table(states)
        self._factor = np.array([*(state.replication_factor for state in states), 0], np.int64)
        self._last = np.array([*(state.replication_factor == state.min_isr for state in states), False])
        self._eligible = np.array([*(row["eligible"] for row in brokers.rows), False])

    def rows(self, chunk: Chunk) -> Array:
        """Return the topics of a chunk that any ranking may list."""
        starts = np.flatnonzero(np.diff(chunk.topic, prepend=-1))
        factor = self._factor[chunk.state]
        partitions = np.diff(starts, append=len(chunk.topic))
        found = {
            "partitions": partitions,
            "replication_factor": np.maximum.reduceat(factor, starts),
            "rf1": np.add.reduceat((factor == 1).astype(np.int64), starts),
            "rf_is_min_isr": np.add.reduceat(self._last[chunk.state].astype(np.int64), starts),
            **self._by_broker(chunk, starts, partitions),
        }
        return worst_topics(np.stack([chunk.topic[starts].astype(np.int64), *(found[name] for name in FIELDS)]))

    def _by_broker(self, chunk: Chunk, starts: Array, partitions: Array) -> dict[str, Array]:
        """Return the counts that follow from the replicas and leaders of each topic on each broker."""
        codes = self._codes[chunk.state[chunk.rows], chunk.positions]
        width = len(self._eligible)
        topic = np.zeros(len(chunk.topic), np.int64)
        topic[starts[1:]] = 1
        keys = np.cumsum(topic)[chunk.rows] * width + chunk.replicas
        count = max(1, int(self._eligible.sum()))
        held_at, held = _counted(keys[codes & TARGET > 0])
        led_at, led = _counted(keys[codes & LEADER > 0])
        replicas = _per_topic(np.add, held_at // width, held, len(starts))
        fair, fair_leaders = -(-replicas // count), -(-partitions // count)
        leaders_max = _per_topic(np.maximum, led_at // width, led, len(starts))
        usable = self._eligible[held_at % width]
        used = np.bincount(held_at[usable] // width, minlength=len(starts))
        least = _per_topic(np.minimum, held_at[usable] // width, held[usable], len(starts))
        return {
            "replicas": replicas,
            "brokers_used": used,
            "replicas_min": np.where(used == int(self._eligible.sum()), least, 0),
            "replicas_max": _per_topic(np.maximum, held_at // width, held, len(starts)),
            "excess": _per_topic(np.add, held_at // width, np.maximum(0, held - fair[held_at // width]), len(starts)),
            "leaders_max": leaders_max,
            "leader_skew": np.maximum(0, leaders_max - fair_leaders),
        }


def worst_topics(rows: Array) -> Array:
    """Return the topics that a ranking lists (see `app.reports.aggregates.ranked_topics`)."""
    kept = np.zeros(rows.shape[1], bool)
    for name in TOPIC_RANKINGS:
        values = rows[1 + FIELDS.index(name)]
        worst = np.lexsort((rows[0], -values))[:TOPICS_LISTED]
        kept[worst[values[worst] > 0]] = True
    chosen: Array = rows[:, kept]
    return chosen


def topic_rows(rows: Array, names: Sequence[str]) -> list[TopicRow]:
    """Return topics in order of name. `names` are those of all topics by index."""
    return [TopicRow(names[topic], *values) for topic, *values in rows[:, np.argsort(rows[0])].T.tolist()]


def _counted(keys: Array) -> tuple[Array, Array]:
    """Return the distinct keys, sorted, and how often each occurs."""
    ordered = np.sort(keys)
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], np.diff(starts, append=len(ordered))


def _per_topic(combine: np.ufunc, topic: Array, values: Array, topics: int) -> Array:
    """Return the values of each topic combined, 0 for a topic without any. `topic` is sorted."""
    result = np.zeros(topics, np.int64)
    starts = np.flatnonzero(np.diff(topic, prepend=-1))
    if len(starts):
        result[topic[starts]] = combine.reduceat(values, starts)
    return result
