"""Records per second of topics, from two answers of a real broker: in REST, on the topic's page and in the list."""

import datetime as dt

import pytest

from app.cluster import topic_rates
from app.cluster.topic_rates import End, Ends
from app.rest.schemas.topics import TopicRateData
from tests.app.groups import new_topic, shown, write
from tests.app.live import CombinedNode, LiveWeb
from tests.interop.kafka import wait_until

TOPIC = "rated"


def test_a_rate_is_the_growth_of_the_end_offsets_between_two_answers(
    web: LiveWeb, node: CombinedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_rates, "STEP", dt.timedelta(seconds=0.2))
    new_topic(web, node, TOPIC, {0: 3, 1: 4})
    url = f"{web.cluster}/topics/{TOPIC}/rate"

    def rate() -> TopicRateData:
        return TopicRateData.model_validate_json(web.client.get(url).content)

    first = rate()
    assert (first.records_per_second, first.unknown_partition_ids, first.error) == (None, [0, 1], None)
    write(node, TOPIC, {0: 30, 1: 12})

    def is_known() -> TopicRateData | None:
        found = rate()
        return None if found.records_per_second is None else found

    found = wait_until(is_known, 30, "the broker has answered twice", 0.02)
    assert found.since is not None
    assert found.asked_at is not None
    seconds = (found.asked_at - found.since) / 1000
    assert found.records_per_second == pytest.approx(42 / seconds, rel=0.02), "42 records since the first answer"
    assert found.unknown_partition_ids == []

    page = shown(web, f"/topics/{TOPIC}", "<dt>Records/s</dt>", ", until ")
    assert 'data-live-every="5"' in page
    wait_until(lambda: rate().records_per_second == 0, 30, "nothing was written between two answers", 0.02)
    past = web.client.get(f"/topics/{TOPIC}?at_offset={web.services.cluster.image.offset}").text
    assert "Records/s" not in past
    assert "Records/s</th>" not in web.client.get(f"/topics?q={TOPIC}").text, "the column is not shown by default"
    chosen = {"Cookie": "columns-topics=rate"}
    listed = web.client.get(f"/topics?q={TOPIC}", headers={"Accept": "text/html", **chosen}).text
    assert "Records/s</th>" in listed
    assert 'title="over ' in listed


def test_an_end_that_went_back_starts_again() -> None:
    times = [dt.datetime(2026, 1, 1, second=second, tzinfo=dt.UTC) for second in range(4)]
    ends = Ends(End(times[0], 10)).then(End(times[1], 15))
    assert ends.before == End(times[0], 10)
    back = ends.then(End(times[2], 5))
    assert (back.before, back.now) == (None, End(times[2], 5)), "records were lost in an unclean election"
    assert back.then(End(times[3], 6)).before == End(times[2], 5)
