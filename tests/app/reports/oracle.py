"""The report computed by brute force, partition by partition, from the image: an independent reference.

It shares no code with the job, and is slow and simple on purpose.
"""

from collections import Counter
from itertools import combinations
from typing import Any

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration

DOWN = {"lost", "offline", "unclean"}


class Oracle:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.partitions = [
            (topic.name, number, each)
            for topic in sorted(image.topics.by_id.values(), key=lambda topic: topic.name)
            for number, each in topic.sorted_partitions()
        ]
        self.racks = sorted({each.rack for each in image.cluster.brokers.values() if each.rack})

    def config(self, topic: str, key: str, default: str) -> str:
        for resource in ((TOPIC, topic), (BROKER, "")):
            value = self.image.configs.of(*resource).get(key)
            if value:
                return value
        return default

    def rack(self, broker: int) -> str | None:
        found = self.image.cluster.brokers.get(broker)
        return found.rack if found else None

    def online(self, each: PartitionRegistration, broker: int) -> bool:
        found = self.image.cluster.brokers.get(broker)
        return found is not None and found.active and found.has_online_dir(each.directory(broker))  # type: ignore[arg-type]  # always placed here

    def min_isr(self, topic: str, each: PartitionRegistration) -> int:
        return min(int(self.config(topic, "min.insync.replicas", "1")), len(each.replicas) - len(each.adding_replicas))

    def target(self, each: PartitionRegistration) -> list[int]:
        return [broker for broker in each.replicas if broker not in each.removing_replicas]

    def verdict(self, topic: str, each: PartitionRegistration, dead: set[int]) -> tuple[str, int]:
        """Return the verdict of a partition without the brokers in `dead`, and its leader afterwards."""
        in_sync = [broker for broker in each.isr if broker not in dead]
        leader = each.leader
        if leader in dead:
            pool = in_sync or [broker for broker in each.elr if broker not in dead and self.image.features.elr_enabled]
            able = [broker for broker in each.replicas if broker in pool and self.online(each, broker)]
            leader = able[0] if able else -1
        if not set(self.target(each)) - dead:
            return "lost", leader
        if leader == -1:
            unclean = self.config(topic, "unclean.leader.election.enable", "false") == "true"
            alive = [broker for broker in each.replicas if broker not in dead and self.online(each, broker)]
            return ("unclean" if unclean and alive else "offline"), leader
        need = self.min_isr(topic, each)
        return ("under_min" if len(in_sync) < need else "at_min" if len(in_sync) == need else "ok"), leader

    def verdicts(self, dead: set[int]) -> dict[str, int]:
        counts = dict.fromkeys(("lost", "offline", "unclean", "under_min", "at_min", "ok"), 0)
        counts.update(Counter(self.verdict(topic, each, dead)[0] for topic, _, each in self.partitions))
        return counts

    def loss(self, dead: set[int]) -> dict[str, Any]:
        before = [self.verdict(topic, each, set()) for topic, _, each in self.partitions]
        after = [self.verdict(topic, each, dead) for topic, _, each in self.partitions]
        taken = Counter(
            now
            for (_, _, each), (_, now) in zip(self.partitions, after, strict=True)
            if each.leader in dead and now >= 0
        )
        led = Counter(each.leader for _, _, each in self.partitions)
        pairs = [(old, new) for (old, _), (new, _) in zip(before, after, strict=True)]
        return {
            "verdicts": self.verdicts(dead),
            "newly_down": sum(new in DOWN and old not in DOWN for old, new in pairs),
            "newly_refused": sum(new in {*DOWN, "under_min"} and old not in {*DOWN, "under_min"} for old, new in pairs),
            "newly_lost": sum(new == "lost" and old != "lost" for old, new in pairs),
            "leaders_moved": sum(taken.values()),
            "hottest_leaders": max((led[broker] + more for broker, more in taken.items()), default=0),
        }

    def rack_moves(self, each: PartitionRegistration) -> int:
        """Return the fewest replicas that must change rack, by trying every even distribution."""
        counts = Counter(rack for rack in map(self.rack, self.target(each)) if rack)
        sizes = {rack: sum(b.rack == rack for b in self.image.cluster.brokers.values()) for rack in self.racks}
        slots = [(rank, rack) for rack, size in sizes.items() for rank in range(size)]
        wanted = len(each.replicas) - len(each.adding_replicas)
        spread = sorted(slots)[:wanted]
        allowed = sorted(Counter(rack for _, rack in spread).values(), reverse=True)
        allowed += [0] * (len(counts) - len(allowed))
        return sum(
            max(0, have - most) for have, most in zip(sorted(counts.values(), reverse=True), allowed, strict=False)
        )

    def rack_verdict(self, each: PartitionRegistration) -> str:
        if self.rack_moves(each):
            return "violated"
        return "unknown" if any(not self.rack(broker) for broker in self.target(each)) else "ok"

    def scatter_width(self, broker: int) -> int:
        edges = {pair for _, _, each in self.partitions for pair in combinations(sorted(self.target(each)), 2)}
        return sum(broker in pair for pair in edges)

    def violations(self) -> list[tuple[str, int, str]]:
        listed = []
        for topic, number, each in self.partitions:
            wanted = len(each.replicas) - len(each.adding_replicas)
            rack = self.rack_verdict(each) if self.racks else "ok"
            if each.leader < 0:
                listed.append((topic, number, "offline"))
            elif len(each.isr) < self.min_isr(topic, each):
                listed.append((topic, number, "under_min"))
            elif rack == "violated":
                listed.append((topic, number, "rack"))
            elif wanted > len(each.isr):
                listed.append((topic, number, "under_replicated"))
            elif rack == "unknown":
                listed.append((topic, number, "rack_unknown"))
        return listed
