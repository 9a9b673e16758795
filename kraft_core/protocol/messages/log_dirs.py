"""Log directories of brokers (KIP-113).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(Message):
    """An element of AlterReplicaLogDirsRequest.dirs[].topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class AlterReplicaLogDirsRequestAlterReplicaLogDir(Message):
    """An element of AlterReplicaLogDirsRequest.dirs."""

    path: Annotated[str, wire("string")] = ""
    topics: Annotated[
        tuple[AlterReplicaLogDirsRequestAlterReplicaLogDirTopic, ...], wire("[]AlterReplicaLogDirTopic")
    ] = ()


class AlterReplicaLogDirsRequest(Message):
    """Move replicas between directories of one broker; apiKey 34, v1-2. Source: AlterReplicaLogDirsRequest.json."""

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    dirs: Annotated[tuple[AlterReplicaLogDirsRequestAlterReplicaLogDir, ...], wire("[]AlterReplicaLogDir")] = ()


class AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(Message):
    """An element of AlterReplicaLogDirsResponse.results[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(Message):
    """An element of AlterReplicaLogDirsResponse.results."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult, ...],
        wire("[]AlterReplicaLogDirPartitionResult"),
    ] = ()


class AlterReplicaLogDirsResponse(Message):
    """The partitions, one by one; apiKey 34, v1-2. Source: AlterReplicaLogDirsResponse.json."""

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[
        tuple[AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult, ...], wire("[]AlterReplicaLogDirTopicResult")
    ] = ()


class DescribeLogDirsRequestDescribableLogDirTopic(Message):
    """An element of DescribeLogDirsRequest.topics."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class DescribeLogDirsRequest(Message):
    """Ask for directories and the replicas in them; apiKey 35, v1-5. Source: DescribeLogDirsRequest.json."""

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE = 2

    topics: Annotated[
        tuple[DescribeLogDirsRequestDescribableLogDirTopic, ...] | None,
        wire("[]DescribableLogDirTopic", nullable_since=0),
    ] = ()


class DescribeLogDirsResponseDescribeLogDirsPartition(Message):
    """An element of DescribeLogDirsResponse.results[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    partition_size: Annotated[int, wire("int64")] = 0
    offset_lag: Annotated[int, wire("int64")] = 0
    is_future_key: Annotated[bool, wire("bool")] = False


class DescribeLogDirsResponseDescribeLogDirsTopic(Message):
    """An element of DescribeLogDirsResponse.results[].topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[DescribeLogDirsResponseDescribeLogDirsPartition, ...], wire("[]DescribeLogDirsPartition")
    ] = ()


class DescribeLogDirsResponseDescribeLogDirsResult(Message):
    """An element of DescribeLogDirsResponse.results."""

    error_code: Annotated[int, wire("int16")] = 0
    log_dir: Annotated[str, wire("string")] = ""
    topics: Annotated[tuple[DescribeLogDirsResponseDescribeLogDirsTopic, ...], wire("[]DescribeLogDirsTopic")] = ()
    total_bytes: Annotated[int, wire("int64", since=4, ignorable=True)] = -1
    usable_bytes: Annotated[int, wire("int64", since=4, ignorable=True)] = -1
    is_cordoned: Annotated[bool, wire("bool", since=5, ignorable=True)] = False


class DescribeLogDirsResponse(Message):
    """Directories and the replicas in them; apiKey 35, v1-5. Source: DescribeLogDirsResponse.json."""

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16", since=3, ignorable=True)] = 0
    results: Annotated[tuple[DescribeLogDirsResponseDescribeLogDirsResult, ...], wire("[]DescribeLogDirsResult")] = ()
