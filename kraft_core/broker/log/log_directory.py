"""One entry of log.dirs."""

import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A directory of partition logs, with the directory id of its meta.properties."""

    path: Path
    directory_id: uuid.UUID
