"""The operations of IncrementalAlterConfigs. Source: AlterConfigOp.OpType."""

from enum import IntEnum


class AlterConfigOp(IntEnum):
    """What to do with one config; APPEND and SUBTRACT are for configs of type LIST."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
