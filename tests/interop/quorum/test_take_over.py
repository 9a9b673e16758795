"""One data folder with several segments and snapshots, used by our controller and Apache's in turn."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from kraft_core.protocol.messages import IncrementalAlterConfigsRequest
from tests.interop import kafka
from tests.interop.admin import tools
from tests.interop.conclave import Quorum, call, make_static, quorum, retry
from tests.interop.dumps import dumped_by_apache, dumped_by_us, files_of, index_report
from tests.interop.kafka import PATIENCE_S
from tests.interop.log_files import (
    image_records_of,
    partition_folder,
    raw_batches,
    replayed,
    snapshot_records,
    snapshots,
)
from tests.interop.metadata_load import CLIENT_METRICS, set_interval

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # the first test waits for a whole chain

SETTINGS = {
    "internal_metadata_log_segment_bytes": 8_000,
    "metadata_log_max_record_bytes_between_snapshots": 9_000,
}
STAGES = (("ours", "stop"), ("apache", "kill"), ("ours", "kill"), ("apache", "stop"), ("ours", "stop"))
WRITES, NAMES_PER_WRITE = 6, 40


@dataclass
class Chain:
    """What the owners have left after each stage."""

    folder: Path
    logs: list[dict[int, bytes]] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    dumps: list[tuple[list[str], list[str]]] = field(default_factory=list)  # ours, Apache's
    index_reports: tuple[list[str], list[str]] = ([], [])  # of our files: wrong entries, sanity checks


def write(port: int, stage: int) -> None:
    """Set `interval.ms` of many client-metrics subscriptions to the number of the stage, and wait for each response."""

    async def send(first: int) -> None:
        resources = tuple(
            resource
            for number in range(first, first + NAMES_PER_WRITE)
            for resource in set_interval(f"stage-{stage}-{number}", 100 + stage).resources
        )
        answer = await call(port, IncrementalAlterConfigsRequest(resources=resources), 1)
        assert {each.error_code for each in answer.responses} == {0}, answer

    async def send_all() -> None:
        for number in range(WRITES):
            once_more = partial(send, number * NAMES_PER_WRITE)
            await retry(once_more, PATIENCE_S, (AssertionError, OSError, EOFError))

    asyncio.run(send_all())


def hold(found: Quorum, side: str, ending: str, stage: int) -> None:
    """Run one side on the folder: it must lead, accept writes and make a snapshot of them before it ends."""
    folder = found.folder_of(1)
    known = max(snapshots(folder), default=0)
    process = (found.start if side == "ours" else found.start_apache)(1)
    assert found.wait_for_leader() == 1
    write(found.port_of(1), stage)
    kafka.wait_until(lambda: max(snapshots(folder), default=0) > known, PATIENCE_S, f"{side} makes a snapshot", 0.02)
    if ending == "kill":
        process.kill()
    else:
        assert process.stop() in {0, 143}


def run_chain(found: Quorum, jvm: tools.Tools) -> Chain:
    """Run ours, Apache's, ours, Apache's, ours, with clean stops and with SIGKILL between them."""
    folder = found.folder_of(1)
    chain = Chain(folder)
    for stage, (side, ending) in enumerate(STAGES):
        hold(found, side, ending, stage)
        chain.logs.append(raw_batches(folder))
        chain.segments.append(len(list(partition_folder(folder).glob("*.log"))))
        paths = files_of(folder)
        chain.dumps.append((dumped_by_us(paths), dumped_by_apache(jvm, paths)))
        if stage == 0:
            chain.index_reports = (
                index_report(jvm, folder, "--verify-index-only"),
                index_report(jvm, folder, "--index-sanity-check"),
            )
    return chain


@pytest.fixture(scope="module")
def static_chain(tmp_path_factory: pytest.TempPathFactory, tools: tools.Tools) -> Iterator[Chain]:
    """kraft.version 0."""
    with quorum(tmp_path_factory.mktemp("static"), 1, **SETTINGS) as found:
        make_static(found)
        yield run_chain(found, tools)


@pytest.fixture(scope="module")
def dynamic_chain(tmp_path_factory: pytest.TempPathFactory, tools: tools.Tools) -> Iterator[Chain]:
    """kraft.version 1."""
    with quorum(tmp_path_factory.mktemp("dynamic"), 1, **SETTINGS) as found:
        found.format(1)
        yield run_chain(found, tools)


@pytest.fixture(params=["static_chain", "dynamic_chain"])
def chain(request: pytest.FixtureRequest) -> Chain:
    """Each of the two; each chain runs once, in whatever order the tests run."""
    found: Chain = request.getfixturevalue(request.param)
    return found


def test_every_owner_continues_where_the_last_one_ended(chain: Chain) -> None:
    for earlier, later in pairwise(chain.logs):
        assert earlier.items() <= later.items()
        assert len(later) > len(earlier)
    assert all(earlier < later for earlier, later in pairwise([1, *chain.segments])), chain.segments


def test_nothing_acknowledged_is_lost_through_clean_stops_and_kills(chain: Chain) -> None:
    image = list(replayed(chain.logs[-1]))[-1]
    wanted = {
        f"stage-{stage}-{number}": str(100 + stage)
        for stage in range(len(STAGES))
        for number in range(WRITES * NAMES_PER_WRITE)
    }
    assert {name: image.configs.of(CLIENT_METRICS, name).get("interval.ms") for name in wanted} == wanted


def test_every_owners_snapshots_equal_the_log(chain: Chain) -> None:
    images = {image.offset + 1: image for image in replayed(chain.logs[-1])}
    found = snapshots(chain.folder)
    assert len(found) >= len(STAGES)
    for offset, path in found.items():
        assert snapshot_records(path)[1] == image_records_of(images[offset]), path


def test_both_dump_tools_print_the_same_for_every_file_of_every_owner(chain: Chain) -> None:
    for ours, theirs in chain.dumps:
        assert ours == theirs
        assert len(ours) > 100


def test_kafkas_dump_tool_accepts_our_index_files(chain: Chain) -> None:
    wrong, sanity = chain.index_reports
    assert [line for line in wrong if not line.endswith(" is empty.")] == []
    passed = [line for line in sanity if line.endswith(" passed sanity check.")]
    assert len(passed) > chain.segments[0]
    assert all(line.endswith((" passed sanity check.", " is empty.")) for line in sanity), sanity
