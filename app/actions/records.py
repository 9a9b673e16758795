"""Writing records, with an audit event without their content; reading them is recorded too."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from app.actions.audited import Audited, Caller
from app.cluster.records import Found, NewRecord, RecordQuery, Tailed
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.clients.producer.future_record_metadata import RecordMetadata
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.errors import KafkaError

SHOWN: Final = 20
"""Partitions and offsets that an event names."""


class RecordActions(Audited):
    """Reads and writes records of topics. Events have topic, partitions, offsets and counts only."""

    async def produce(
        self, caller: Caller, topic: str, records: Sequence[NewRecord]
    ) -> list[RecordMetadata | KafkaError]:
        """Write records; return the outcome of each. See Records.produce."""
        detail: dict[str, object] = {
            "records": len(records),
            "bytes": sum(len(each.key or b"") + len(each.value or b"") for each in records),
        }
        async with self._audited(caller, "records.produce", f"topic/{topic}", detail) as outcome:
            done = await self._cluster.records.produce(topic, records)
            written = [each for each in done if not isinstance(each, KafkaError)]
            failed = [each for each in done if isinstance(each, KafkaError)]
            detail["written"] = [f"{each.partition}:{each.offset}" for each in written[:SHOWN]]
            if failed:
                outcome.error = f"{len(failed)} of {len(done)} records were not written: {failed[0]}"
        return done

    async def read(self, caller: Caller, query: RecordQuery) -> Found:
        """Read a window of records. See Records.window."""
        partitions = query.indexes[:SHOWN] if query.partitions else "all"
        await self._note(caller, query.topic.name, {"partitions": partitions, "filters": len(query.filters.filters)})
        return await self._cluster.records.window(query)

    async def read_one(
        self, caller: Caller, topic: TopicImage, partition: int, offset: int, *, is_whole: bool = False
    ) -> Raw | None:
        """Read one record. See Records.one."""
        await self._note(caller, topic.name, {"partition": partition, "offset": offset})
        return await self._cluster.records.one(topic, partition, offset, is_whole=is_whole)

    async def tail(self, caller: Caller, query: RecordQuery) -> AsyncIterator[Tailed]:
        """Yield new records. See Records.tail."""
        await self._note(caller, query.topic.name, {"tail": True})
        async for each in self._cluster.records.tail(query):
            yield each

    async def _note(self, caller: Caller, topic: str, detail: dict[str, object]) -> None:
        await self._security.record(
            caller.principal.actor, "records.read", f"topic/{topic}", "ok", caller.info, detail=detail
        )
