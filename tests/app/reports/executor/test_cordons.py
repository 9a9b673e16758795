"""The cordons that ended drains have left."""

import pytest
from msgspec.structs import replace
from rpds import HashTrieMap
from sqlalchemy.orm import Session

from app.db.database import Database
from app.reports.executor import plan_store
from app.reports.executor.cordons import LeftCordon, left_cordons, to_uncordon, without
from app.reports.executor.models import PlanRecord, PlanSetting
from app.reports.executor.plan import DONE, RUNNING, SET
from app.reports.executor.plan_store import NewPlan, PlanStateError
from app.reports.executor.throttles import CORDONED
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import ConfigurationsImage, MetadataImage
from tests.app.reports.clusters import CLUSTER_ID, broker, image, partition


@pytest.mark.parametrize(
    ("now", "ours", "before", "left"),
    [
        ("*", "*", None, None),
        ("*", "*", "/a,/b", "/a,/b"),
        ("/a", "*", None, "/a"),  # another caller has cordoned one directory instead
        ("/a,/b", "/a,/b", "/a", "/a"),
        ("/a", "/a", None, None),
        ("/a, /c", "/a", None, "/c"),  # /c was cordoned after the drain
        ("*", "/a", None, "*"),  # and here the whole broker
        ("/a", "/a", "/a", "/a"),  # it was cordoned before the drain
        ("*", "*", "*", "*"),
        ("/c", "/a", None, "/c"),
    ],
)
def test_only_what_the_plan_has_cordoned_is_uncordoned(now: str, ours: str, before: str | None, left: str) -> None:
    assert without(now, ours, before) == left


def shown(**cordoned: str) -> MetadataImage:
    """Brokers 1 to 3; `b1="/a"` sets cordoned.log.dirs of broker 1."""
    made = image([broker(each, None) for each in (1, 2, 3)], {"t": [partition("1 2")]})
    values = {(BROKER, name[1:]): HashTrieMap({CORDONED: value}) for name, value in cordoned.items()}
    return replace(made, configs=ConfigurationsImage(HashTrieMap(values)))


def ended(
    session: Session, state: str, settings: dict[int, str], drain_log_dirs: tuple[tuple[int, str], ...]
) -> PlanRecord:
    new = NewPlan(cluster_id=CLUSTER_ID, origin="drain", rows=(), options={}, drain_log_dirs=drain_log_dirs)
    record = plan_store.create(session, new, "ann")
    record.state = state
    for broker_id, value in settings.items():
        names = {"resource_type": BROKER, "resource_name": str(broker_id), "name": CORDONED}
        session.add(PlanSetting(plan_id=record.id, **names, before=None, ours=[value], state=SET))
    session.flush()
    return record


def test_a_drain_that_ended_has_left_the_cordons_that_the_cluster_still_shows(sqlite: Database) -> None:
    def work(session: Session) -> None:
        record = ended(session, DONE, {1: "/a", 2: "*", 3: "/a", 9: "*"}, drain_log_dirs=((1, "/a"), (3, "/a")))
        found = left_cordons(session, record, shown(b1="/a,/b", b2="*", b9="*"))
        # broker 3 was uncordoned by hand, and 9 is not registered any more
        assert found == [LeftCordon(1, "/a,/b", "/b"), LeftCordon(2, "*", None)]
        assert to_uncordon(session, CLUSTER_ID, record.id, shown(b2="*")) == (record, [LeftCordon(2, "*", None)])
        with pytest.raises(PlanStateError, match=r"Plan 1 has left no cordon\."):
            to_uncordon(session, CLUSTER_ID, record.id, shown())
        with pytest.raises(LookupError):
            to_uncordon(session, "another", record.id, shown(b2="*"))

    sqlite.write_now(work)


def test_a_cordon_that_a_running_drain_needs_is_kept(sqlite: Database) -> None:
    def work(session: Session) -> None:
        record = ended(session, DONE, {1: "/a"}, drain_log_dirs=((1, "/a"),))
        other = ended(session, RUNNING, {1: "/a"}, drain_log_dirs=((1, "/a"),))
        with pytest.raises(PlanStateError, match=rf"Plan {other.id} is draining broker 1\."):
            to_uncordon(session, CLUSTER_ID, record.id, shown(b1="/a"))
        assert left_cordons(session, other, shown(b1="/a")) == []
        with pytest.raises(PlanStateError, match="is running, and keeps its cordons"):
            to_uncordon(session, CLUSTER_ID, other.id, shown(b1="/a"))
        other.drain_log_dirs = [(2, "/a")]
        assert to_uncordon(session, CLUSTER_ID, record.id, shown(b1="/a"))[1]

    sqlite.write_now(work)
