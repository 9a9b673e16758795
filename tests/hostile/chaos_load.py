"""What clients ask of a tormented quorum, and the accounts of what was acknowledged."""

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
FIRST_NUMBER = 100  # the least that interval.ms takes
WRITERS = 3


@dataclass
class Accounts:
    """What was acknowledged, and what is unknown because no answer came. Times are of the monotonic clock, in s."""

    created: dict[str, UUID] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    delete_unknown: set[str] = field(default_factory=set)
    blocks: list[tuple[int, int, float, float]] = field(default_factory=list)  # first id, length, sent, answered
    numbers: list[int] = field(default_factory=list)  # written to the register, in the order of their answers
    attempted: int = 0  # the last number sent
    failed: int = 0
    wrong: list[str] = field(default_factory=list)  # noticed on the way
    answered: list[float] = field(default_factory=list)  # when each write was acknowledged

    @property
    def acknowledged(self) -> int:
        """How many operations were."""
        return len(self.created) + len(self.deleted) + len(self.blocks) + len(self.numbers)

    def settle(self, image: MetadataImage) -> list[str]:
        """Compare with the metadata there is; each difference is a line."""
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
        """Blocks are disjoint, and a later request gets a later block."""
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
    """Take producer id blocks, until cancelled."""
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
    """Write rising numbers into one setting, and read each back from the leader that acknowledged it.

    Apache's controllers show a write only after they have told others of it, so they need not read their own.
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
            if read.results[0].error_code != ErrorCode.NONE:  # nobody confirmed that it leads still
                continue
            shown = next((each.value for each in read.results[0].configs if each.name == "interval.ms"), None)
            if reads_own_writes and client.leader is writer is not None and shown != str(number):
                accounts.wrong.append(f"{number} was acknowledged, then its leader showed {shown}")
