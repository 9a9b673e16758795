"""The load on a quorum under faults, and the accounts of what was acknowledged."""

import asyncio
import contextlib
import itertools
import random
import time
from dataclasses import dataclass, field
from uuid import UUID

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AllocateProducerIdsRequest,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics
from tests.interop.metadata_load import CLIENT_METRICS, set_interval

FAILURES = (ConnectionError, KafkaError, OSError)
REGISTER = "register"
FIRST_NUMBER = 100  # smallest valid interval.ms
WRITERS = 3


@dataclass
class Accounts:
    """Acknowledged changes, and changes of unknown outcome. Times are in s of the monotonic clock."""

    created: dict[str, UUID] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    delete_unknown: set[str] = field(default_factory=set)
    blocks: list[tuple[int, int, float, float]] = field(default_factory=list)  # first id, length, sent, answered
    numbers: list[int] = field(default_factory=list)  # values written to the register, in the order of their answers
    attempted: int = 0  # last value sent
    failed: int = 0
    wrong: list[str] = field(default_factory=list)  # violations found during the run
    answered: list[float] = field(default_factory=list)  # time of each acknowledgement

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged operations."""
        return len(self.created) + len(self.deleted) + len(self.blocks) + len(self.numbers)

    def settle(self, image: MetadataImage) -> list[str]:
        """Compare the accounts with the metadata. Return one line per difference."""
        names = dict(image.topics.by_name.items())
        gone_or_doomed = self.deleted | self.delete_unknown
        wrong = [
            f"created topic {name} is gone" for name in self.created if name not in names and name not in gone_or_doomed
        ]
        wrong += [
            f"topic {name} has another id"
            for name, topic_id in self.created.items()
            if names.get(name, topic_id) != topic_id
        ]
        wrong += [f"deleted topic {name} is back" for name in self.deleted if name in names]
        if len(set(self.created.values())) != len(self.created):
            wrong.append("two topics got one id")
        found = int(image.configs.of(CLIENT_METRICS, REGISTER).get("interval.ms", "-1"))
        if self.numbers and not self.numbers[-1] <= found <= self.attempted:
            wrong.append(f"the register holds {found}, not {self.numbers[-1]} to {self.attempted}")
        return wrong + self._settle_blocks(image)

    def _settle_blocks(self, image: MetadataImage) -> list[str]:
        """Check that blocks are disjoint and ordered as their requests."""
        pairs = list(itertools.pairwise(sorted(self.blocks)))
        wrong = [f"producer id blocks {one} and {two} overlap" for one, two in pairs if one[0] + one[1] > two[0]]
        wrong += [f"block {two} was given before {one} was asked for" for one, two in pairs if two[3] < one[2]]
        wrong += [f"block {each} is given again next" for each in self.blocks if each[0] + each[1] > image.producer_ids]
        return wrong


async def write_topics(quorum: Quorum, accounts: Accounts, writer: int, dice: random.Random) -> None:
    """Create topics and delete some, until cancelled."""
    client = controller_client(quorum.bootstrap)
    mine: list[str] = []
    for number in itertools.count():
        await asyncio.sleep(0.01)
        try:
            if mine and dice.random() < 0.2:
                name = mine.pop(dice.randrange(len(mine)))
                accounts.delete_unknown.add(name)
                doomed = DeleteTopicsRequestDeleteTopicState(name=name)
                gone = await client.request(DeleteTopicsRequest(topics=(doomed,), timeout_ms=5_000), timeout_ms=6_000)
                if gone.responses[0].error_code == ErrorCode.NONE:
                    accounts.deleted.add(name)
            else:
                name = f"topic-{writer}-{number}"
                answer = await client.request(create_topics([name], partitions=2), timeout_ms=6_000)
                if answer.topics[0].error_code != ErrorCode.NONE:
                    accounts.failed += 1
                    continue
                accounts.created[name] = answer.topics[0].topic_id
                mine.append(name)
            accounts.answered.append(time.monotonic())
        except FAILURES:
            accounts.failed += 1


async def take_blocks(quorum: Quorum, accounts: Accounts, broker: RawBroker) -> None:
    """Allocate producer id blocks, until cancelled."""
    client = controller_client(quorum.bootstrap)
    while True:
        await asyncio.sleep(0.05)
        sent = time.monotonic()
        with contextlib.suppress(*FAILURES):
            asked = AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
            got = await client.request(asked, timeout_ms=5_000)
            if got.error_code == ErrorCode.NONE:
                accounts.blocks.append((got.producer_id_start, got.producer_id_len, sent, time.monotonic()))
                accounts.answered.append(time.monotonic())


async def write_register(quorum: Quorum, accounts: Accounts, *, reads_own_writes: bool) -> None:
    """Write increasing numbers to one config, and read each back from the leader that acknowledged it.

    Apache's controllers show a write only after its replication, so they are not required to read their own writes.
    """
    client = controller_client(quorum.bootstrap)
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=REGISTER, configuration_keys=None
    )
    for number in itertools.count(FIRST_NUMBER):
        await asyncio.sleep(0.02)
        with contextlib.suppress(*FAILURES):
            accounts.attempted = number
            answer = await client.request(set_interval(REGISTER, number), timeout_ms=6_000)
            if answer.responses[0].error_code != ErrorCode.NONE:
                accounts.failed += 1
                continue
            accounts.numbers.append(number)
            accounts.answered.append(time.monotonic())
            writer = client.leader
            read = await client.request(DescribeConfigsRequest(resources=(resource,)), timeout_ms=2_000)
            if read.results[0].error_code != ErrorCode.NONE:  # the leadership was not confirmed
                continue
            shown = next((each.value for each in read.results[0].configs if each.name == "interval.ms"), None)
            if reads_own_writes and client.leader is writer is not None and shown != str(number):
                accounts.wrong.append(f"{number} was acknowledged, then its leader showed {shown}")
