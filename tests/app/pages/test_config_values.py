"""Values of configs as people write them."""

import pytest

from app.pages.config_values import in_words, parsed, unit_of
from kraft_core.configs.config_def import ConfigType


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("retention.ms", "7 d", "604800000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("retention.ms", "soon", "soon"),
        ("log.retention.minutes", "2 h", "120"),
        ("log.retention.hours", "7 d", "168"),
        ("segment.bytes", "1 GiB", "1073741824"),
        ("segment.bytes", "1 gb", "1000000000"),
        ("min.insync.replicas", "2 d", "2 d"),
    ],
)
def test_an_amount_with_a_unit_becomes_the_number_that_kafka_takes(name: str, typed: str, value: str) -> None:
    assert parsed(typed, unit_of(name, ConfigType.LONG)) == value


@pytest.mark.parametrize(
    ("name", "typed", "error"),
    [
        ("retention.ms", "2 weeks", "'2 weeks' has an unknown unit; allowed are ms, s, min, h, d."),
        ("retention.ms", "0.5 ms", "'0.5 ms' is not a whole number of ms."),
        ("log.retention.hours", "30 min", "'30 min' is not a whole number of h."),
        ("segment.bytes", "1 d", "'1 d' has an unknown unit; allowed are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB."),
    ],
)
def test_an_amount_that_the_config_cannot_hold_is_refused(name: str, typed: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:
        parsed(typed, unit_of(name, ConfigType.LONG))
    assert str(refused.value) == error


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "90000", "90 s"),
        ("retention.ms", "1", ""),
        ("retention.ms", "-1", ""),
        ("retention.ms", None, ""),
        ("retention.bytes", "1610612736", "1536 MiB"),
        ("log.retention.hours", "168", "7 d"),
        ("cleanup.policy", "compact", ""),
    ],
)
def test_a_value_is_shown_with_the_largest_unit_that_divides_it(name: str, value: str | None, words: str) -> None:
    kind = ConfigType.LIST if name == "cleanup.policy" else ConfigType.LONG
    assert in_words(value, unit_of(name, kind)) == words
