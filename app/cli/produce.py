"""`conclave produce`: sends lines as records.

Exit codes: 0 everything is acknowledged, 1 some records are not (the counts are on standard error), 2 a line is no
record, 130 Ctrl-C (what was read before is delivered).
"""

import asyncio
import concurrent.futures
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from app.cli.client_run import Progress, StopSignal, amount, stop_signal
from app.cli.record_lines import InputError, LineParser, LineSplitter, ProducedRecord
from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.protocol.errors import ErrorCode, KafkaError

DEFAULTS: Final[dict[str, object]] = {"client.id": "conclave-produce", "max.block.ms": 15_000}
CHUNK_BYTES: Final = 1 << 16
CHUNKS_AHEAD: Final = 4
SLEEP_MIN_S: Final = 0.002
"""Shorter pauses of --rate are taken together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """The options of `conclave produce`. Without files, standard input is read; `-` is standard input too."""

    topic: str
    configs: Mapping[str, object]
    files: Sequence[Path]
    parse: LineParser
    partition: int | None = None
    rate: float | None = None
    count: int | None = None


def run_produce(options: ProduceOptions) -> int:
    """Send all records and return the exit code. Raises ConfigException and OSError for files that cannot be read."""
    return asyncio.run(_Production(options).run())


class _Production:
    """One run: what was read, sent and acknowledged."""

    def __init__(self, options: ProduceOptions) -> None:
        self._options = options
        self._splitter = LineSplitter()
        self._read_bytes = 0
        self._sent = 0
        self._delivered = 0
        self._failed = 0
        self._first_error: Exception | None = None
        self._has_ended = False
        self._progress = Progress(
            lambda seconds: amount(self._delivered, self._read_bytes, seconds),
            is_shown=bool(options.files) or not sys.stdin.isatty(),
        )

    async def run(self) -> int:
        refused: InputError | None = None
        with stop_signal() as stop:
            async with KafkaProducer(self._options.configs) as producer:
                try:
                    await self._send_all(producer, stop)
                except InputError as error:
                    refused = error
                flushing = asyncio.ensure_future(producer.flush())
                while not flushing.done():
                    await asyncio.wait([flushing], timeout=0.1)
                    self._progress.update()
                await flushing
        self._progress.end()
        if refused is not None:
            _complain(f"{refused}; {self._delivered} records before it were delivered")
            return 2
        if self._failed:
            _complain(f"{self._failed} of {self._sent} records were not delivered; first error: {self._first_error}")
            return 1
        return stop.exit_code

    async def _send_all(self, producer: KafkaProducer, stop: StopSignal) -> None:
        """Send until the input, the count or a signal ends it. Raises InputError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async for lines in self._lines(stop):
            for line in lines:
                await self._send(producer, self._options.parse(line, self._splitter.lines))
                if self._has_ended or self._sent == self._options.count:
                    return
                if self._options.rate is not None:
                    pause = began + self._sent / self._options.rate - loop.time()
                    if pause > SLEEP_MIN_S and await stop.wait_within(pause):
                        return
                if stop.number is not None:
                    return
            self._progress.update()

    async def _send(self, producer: KafkaProducer, record: ProducedRecord) -> None:
        self._sent += 1
        partition = self._options.partition if record.partition is None else record.partition
        try:
            future = await producer.send(
                self._options.topic,
                record.value,
                record.key,
                partition=partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
        except KafkaError as error:
            self._fail(error)
            self._has_ended = error.code is not ErrorCode.MESSAGE_TOO_LARGE
        else:
            future.add_done_callback(self._count)

    def _count(self, future: FutureRecordMetadata) -> None:
        try:
            future.result()
        except KafkaError as error:
            self._fail(error)
        else:
            self._delivered += 1

    def _fail(self, error: KafkaError) -> None:
        self._failed += 1
        self._first_error = self._first_error or error

    async def _lines(self, stop: StopSignal) -> AsyncIterator[Iterator[bytes]]:
        """Yield the lines that each chunk of the input completes, until a signal arrives.

        `_splitter.lines` is the number of the line that the caller has taken last.
        """
        stopped = asyncio.ensure_future(stop.wait())
        chunks = _Input(self._options.files)
        try:
            while True:
                chunk = asyncio.ensure_future(chunks.next())
                await asyncio.wait([chunk, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    return
                data = chunk.result()
                if data is None:
                    yield self._splitter.end()
                    return
                self._read_bytes += len(data)
                yield self._splitter.feed(data)
        finally:
            stopped.cancel()


class _Input:
    """Chunks of files, read by a thread of their own: files cannot be waited for, and a terminal may never answer."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError | None] = asyncio.Queue(CHUNKS_AHEAD)
        Thread(target=self._read, args=[files or [Path("-")]], daemon=True).start()

    async def next(self) -> bytes | None:
        """Return the next chunk, None at the end. A file ends with a line feed. Raises OSError."""
        chunk = await self._chunks.get()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _read(self, files: Sequence[Path]) -> None:
        with suppress(RuntimeError, concurrent.futures.CancelledError):  # the event loop has ended meanwhile
            self._read_files(files)

    def _read_files(self, files: Sequence[Path]) -> None:
        try:
            for file in files:
                last = b""
                handle = 0 if str(file) == "-" else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                while data := os.read(handle, CHUNK_BYTES):  # not sys.stdin: its lock would be held at the end
                    last = data[-1:]
                    self._put(data)
                if handle:
                    os.close(handle)
                if last not in {b"", b"\n"}:
                    self._put(b"\n")
            self._put(None)
        except OSError as error:
            self._put(error)

    def _put(self, chunk: bytes | OSError | None) -> None:
        """Hand a chunk over, and wait while the queue is full."""
        waiting = self._chunks.put(chunk)
        try:
            asyncio.run_coroutine_threadsafe(waiting, self._loop).result()
        finally:
            waiting.close()


def _complain(text: str) -> None:
    print(f"conclave produce: {text}", file=sys.stderr)
