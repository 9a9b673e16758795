"""The columns of a partition in Parquet: in a report's snapshot with indexes of brokers, in the lake with their ids."""

from typing import Final

import pyarrow as pa

IDS: Final = pa.list_(pa.int32())
PARTITION_FIELDS: Final = (
    ("partition", pa.int32()),
    ("replicas", IDS),
    ("isr", IDS),
    ("elr", IDS),
    ("adding", IDS),
    ("removing", IDS),
    ("offline_replicas", IDS),
    ("leader", pa.int32()),
    ("leader_epoch", pa.int32()),
    ("partition_epoch", pa.int32()),
    ("size_bytes", pa.int64()),
)
