"""State that is still in transition at the end of a list, so that snapshots contain it."""

from collections.abc import Iterator

from tests.interop.answers.controller_requests.brokers import registration
from tests.interop.answers.controller_requests.case import Case, fixed
from tests.interop.answers.controller_requests.lifecycle import beat
from tests.interop.answers.controller_requests.partitions import reassignment
from tests.interop.answers.controller_requests.topics import creation, topic

BROKERS = (111, 112, 113, 114, 115)
TELLTALES = (
    "adding_replicas=(113,)",
    "removing_replicas=(111,)",
    "eligible_leader_replicas=(113,)",
    "last_known_elr=(114,)",
    "leader_recovery_state=1",
    "in_controlled_shutdown=True",
)
"""Fields of a snapshot's records that show it."""


def unfinished_requests() -> Iterator[Case]:
    """Return a reassignment, an ELR, a leaderless and an unclean partition, and a broker that shuts down."""
    for broker_id in BROKERS:
        yield Case("register", lambda known, one=broker_id: registration(one, known.cluster_id), 4)
        yield beat("alive", broker_id)
    two_in_sync: dict[str, str | None] = {"min.insync.replicas": "2"}
    unclean: dict[str, str | None] = {"unclean.leader.election.enable": "true"}
    topics = (
        topic("moving", (111, 112)),
        topic("eligible", (111, 112, 113), configs=two_in_sync),
        topic("leaderless", (114,)),
        topic("unclean", (112, 114), configs=unclean),
        topic("leaving", (115, 111)),
    )
    yield fixed("topics for what is under way", creation(*topics), 7)
    yield fixed("move to a broker that never catches up", reassignment("moving", (0, (112, 113))), 1)
    yield beat("wants to be fenced", 112, fence=True)
    yield Case("register after an unclean stop", lambda known: registration(112, known.cluster_id, life=1), 4)
    yield beat("alive", 112)
    yield beat("wants to be fenced", 113, fence=True)
    yield beat("wants to be fenced", 114, fence=True)
    yield beat("wants to shut down", 115, shut_down=True)
