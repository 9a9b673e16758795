"""How a broker opens the logs of the partitions that it leads."""

import asyncio
import time
import uuid
from pathlib import Path

import pytest

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.broker.slices import SLICE_S
from kraft_core.image.metadata_image import MetadataImage
from tests.broker.metadata import BROKER_ID, image_of


class SlowLogManager(LogManager):
    """Takes a whole slice to open a log."""

    def get_or_create(self, topic: str, partition: int, topic_id: uuid.UUID, directory_id: uuid.UUID) -> UnifiedLog:
        time.sleep(SLICE_S)
        return super().get_or_create(topic, partition, topic_id, directory_id)


@pytest.mark.parametrize("images", [1, 3])
def test_a_turn_of_the_loop_opens_as_many_logs_as_fit_in_a_slice(tmp_path: Path, images: int) -> None:
    """Also when several requests have created topics."""

    async def run() -> None:
        logs = SlowLogManager([LogDirectory(tmp_path, uuid.UUID(int=1))], LogManagerConfig(), lambda topic: LogConfig())
        replicas = ReplicaManager(BROKER_ID, logs, lambda: 0)
        old = MetadataImage.EMPTY
        for number in range(images):
            new = image_of({f"t{each}": (uuid.UUID(int=each + 1), 4) for each in range(number + 1)})
            replicas.on_image(old, new, ())
            old = new
        opened = [len(logs.logs)]
        while opened[-1] < 4 * images:
            await asyncio.sleep(0)
            opened.append(len(logs.logs))
        assert opened == [*range(1, 4 * images + 1)]

    asyncio.run(run())
