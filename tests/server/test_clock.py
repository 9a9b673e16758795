"""The clock with a wall clock that is set while it runs."""

from hypothesis import given
from hypothesis import strategies as st

from kraft_core.server.clock import Clock


class Watch:
    def __init__(self) -> None:
        self.monotonic_s = 100.0
        self.wall_s = 1_700_000_000.0

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds


def clock_on(watch: Watch) -> Clock:
    return Clock(lambda: watch.monotonic_s, lambda: watch.wall_s)


def test_the_clock_follows_a_steady_wall_clock() -> None:
    watch = Watch()
    clock = clock_on(watch)
    for _ in range(50):
        watch.pass_s(0.7)
    assert clock.now_ms() == int(watch.wall_s * 1000)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-3600, 3600)), max_size=60))
def test_the_clock_neither_goes_back_nor_jumps_when_the_wall_clock_is_set(steps: list[tuple[float, float]]) -> None:
    watch = Watch()
    clock = clock_on(watch)
    before_ms = clock.now_ms()
    for passed_s, set_by_s in steps:
        watch.pass_s(passed_s)
        watch.wall_s += set_by_s
        now_ms = clock.now_ms()
        assert before_ms + passed_s * 950 - 1 <= now_ms <= before_ms + passed_s * 1050 + 1
        before_ms = now_ms


def test_the_clock_converges_to_the_wall_clock_within_minutes() -> None:
    watch = Watch()
    clock = clock_on(watch)
    watch.wall_s += 10
    for _ in range(600):
        watch.pass_s(1)
        clock.now_ms()
    assert abs(clock.now_ms() - watch.wall_s * 1000) < 100
