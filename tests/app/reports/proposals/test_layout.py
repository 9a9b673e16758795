"""The layout: the same from an image and from its snapshot folder."""

from pathlib import Path
from uuid import UUID

import pytest

from app.reports.export import export_image
from app.reports.proposals.layout import DirectorySpace, layout_from_image
from app.reports.proposals.snapshot import layout_from_snapshot
from tests.app.reports.clusters import CLUSTER_ID, broker, directory, image, partition, random_image


@pytest.mark.parametrize("seed", range(20))
def test_the_snapshot_has_the_layout_of_its_image(tmp_path: Path, seed: int) -> None:
    metadata = random_image(seed)
    export_image(metadata, CLUSTER_ID, tmp_path / "snapshot")
    assert layout_from_snapshot(tmp_path / "snapshot") == layout_from_image(metadata)


def test_sizes_are_known_or_none_and_never_zero_instead() -> None:
    metadata = image([broker(1, None)], {"a": [partition("1"), partition("1")]})
    topic_id = next(iter(metadata.topics.by_id))
    assert layout_from_image(metadata).sizes is None
    assert layout_from_image(metadata, {(topic_id, 1): 7}).sizes == [None, 7]


def test_the_fullest_directory_counts_for_the_free_space_of_a_broker() -> None:
    two = (directory(1, 0), directory(1, 1))
    metadata = image([broker(1, None, directories=two), broker(2, None)], {})
    space = {1: {two[0]: DirectorySpace(1_000, 500), two[1]: DirectorySpace(1_000, 150)}}
    brokers = layout_from_image(metadata, space=space).brokers
    assert [each.free_bytes for each in brokers] == [100, None]  # 150 free less the last 10 %, in each of two


def test_a_replica_in_a_lost_directory_is_offline_though_its_broker_is_active() -> None:
    metadata = image([broker(1, None), broker(2, None, directories=(UUID(int=77),))], {"a": [partition("1 2")]})
    layout = layout_from_image(metadata)
    assert layout.lost == {0: (1,)}
    assert layout.offline_replicas(0) == (1,)
