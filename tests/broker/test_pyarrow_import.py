"""pyarrow takes a fraction of a second to import: a thread does it at the first compressed batch, and the event loop serves others meanwhile."""

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_validator import validate_produced
from kraft_core.broker.slices import Slices, Work, decoding
from kraft_core.protocol import compression
from kraft_core.protocol.batch_header import HEADER_BYTES, read_header
from tests.broker.batches import batch, resealed
from tests.broker.test_unified_log import opened

NOW = 2_000
TIMEOUT_S = 30
CODECS = {2: "snappy", 3: "lz4", 4: "zstd"}


class Importer:
    """Stands for import_module: the modules with the threads that import them; may be held up."""

    def __init__(self) -> None:
        self.imports: list[tuple[str, bool]] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.was_held = False

    def __call__(self, name: str) -> ModuleType:
        self.imports.append((name, threading.current_thread() is threading.main_thread()))
        self.was_held = not self.may_end.is_set()
        assert self.may_end.wait(TIMEOUT_S), "nobody else was served while the import took place"
        return import_module(name)


@pytest.fixture
def importer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    found = Importer()
    monkeypatch.setattr(compression, "import_module", found)
    compression.load_pyarrow.cache_clear()
    yield found
    compression.load_pyarrow.cache_clear()


def compressed(codec: int) -> bytes:
    plain = batch([b"a" * 100, b"b" * 100], attributes=codec)
    data = bytearray(plain[:HEADER_BYTES] + pa.Codec(CODECS[codec]).compress(plain[HEADER_BYTES:], asbytes=True))
    struct.pack_into(">i", data, 8, len(data) - 12)
    return resealed(data)


def handled(slices: Slices, work: Work[Any]) -> asyncio.Task[None]:
    """Handle a request as the broker does: its first steps at once, the rest in slices."""

    async def handle() -> None:
        job = slices.begin(work, ("a", "1"))
        if job is not None:
            await slices.finish(job)

    return asyncio.get_running_loop().create_task(handle())


def produce(codec: int, _: Path) -> Work[Any]:
    return validate_produced(compressed(codec), LogConfig(), NOW)


def search_by_time(codec: int, folder: Path) -> Work[Any]:
    log = opened(folder, LogConfig())
    data = compressed(codec)
    log.append_stamped(data, read_header(data), 0, NOW)
    return log.find_by_timestamp(1_000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("request_of", [produce, search_by_time])
def test_no_request_imports_pyarrow_on_the_thread_of_the_loop(
    request_of: Callable[[int, Path], Work[Any]], codec: int, importer: Importer, tmp_path: Path
) -> None:
    async def scenario() -> None:
        slices = Slices()
        await handled(slices, request_of(codec, tmp_path))
        await handled(slices, produce(codec, tmp_path))

    asyncio.run(scenario())
    assert importer.imports == [("pyarrow", False)]


def test_others_are_served_while_pyarrow_is_imported(importer: Importer, tmp_path: Path) -> None:
    importer.may_end.clear()

    async def scenario() -> None:
        slices = Slices()
        waiting = [handled(slices, produce(codec, tmp_path)) for codec in CODECS]
        while not importer.imports:
            await asyncio.sleep(0.001)
        plain = validate_produced(batch([b"a"]), LogConfig(), NOW)
        gzipped = validate_produced(batch([b"a"], compress=True), LogConfig(), NOW)
        await asyncio.wait_for(asyncio.gather(handled(slices, plain), handled(slices, gzipped)), TIMEOUT_S)
        assert not any(task.done() for task in waiting)
        importer.may_end.set()
        await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)

    asyncio.run(scenario())
    assert importer.was_held
    assert importer.imports == [("pyarrow", False)]


def test_a_request_that_is_given_up_during_the_import_leaves_the_others(importer: Importer, tmp_path: Path) -> None:
    importer.may_end.clear()

    async def scenario() -> None:
        slices = Slices()
        given_up, kept = (handled(slices, produce(4, tmp_path)) for _ in range(2))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        importer.may_end.set()
        await asyncio.wait_for(kept, TIMEOUT_S)

    asyncio.run(scenario())


def test_a_batch_is_refused_where_pyarrow_is_missing(monkeypatch: pytest.MonkeyPatch, importer: Importer) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(compression, "import_module", missing)

    async def scenario() -> None:
        with pytest.raises(compression.KafkaError, match="Reading zstd batches needs the package pyarrow"):
            await handled(Slices(), validate_produced(compressed(4), LogConfig(), NOW))

    asyncio.run(scenario())


def test_gzip_waits_for_no_import(importer: Importer) -> None:
    assert list(decoding(0)) == list(decoding(1)) == []
    assert not importer.imports
