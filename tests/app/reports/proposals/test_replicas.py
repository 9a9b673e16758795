"""The columns of replicas against loops over them."""

from hypothesis import given
from hypothesis import strategies as st

from app.reports.proposals.replicas import bytes_of_replicas, largest_replicas, replicas_by_size

BROKERS = 6
PARTITION = st.tuples(
    st.lists(st.integers(0, BROKERS - 1), unique=True, max_size=4).map(tuple),
    st.one_of(st.integers(0, 3), st.integers(0, 2**50)),
    st.booleans(),
)


@given(st.lists(PARTITION, max_size=40))
def test_columns_say_what_loops_say(partitions: list[tuple[tuple[int, ...], int, bool]]) -> None:
    target = [replicas for replicas, _, _ in partitions]
    sizes = [size for _, size, _ in partitions]
    held: list[list[int]] = [[] for _ in range(BROKERS)]
    for partition in sorted(range(len(target)), key=sizes.__getitem__):
        for broker in target[partition]:
            held[broker].append(partition)
    movable = bytearray(is_movable for _, _, is_movable in partitions)
    by_size = [[each for each in found if movable[each]] for found in held]
    assert [list(each) for each in replicas_by_size(target, sizes, movable, BROKERS)] == by_size
    assert bytes_of_replicas(target, sizes, BROKERS) == [sum(sizes[each] for each in found) for found in held]
    assert largest_replicas(target, sizes, BROKERS) == [
        max((sizes[each] for each in found), default=0) for found in held
    ]
