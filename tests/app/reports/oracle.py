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
        """Return the fewest replicas of the target that must change rack for an even distribution."""
        counts = Counter(rack for rack in map(self.rack, self.target(each)) if rack)
        sizes = {rack: sum(b.rack == rack for b in self.image.cluster.brokers.values()) for rack in self.racks}
        slots = [(rank, rack) for rack, size in sizes.items() for rank in range(size)]
        spread = sorted(slots)[: len(self.target(each))]
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
        return sum(broker in pair for pair in self.edges())

    def in_rack(self, rack: str) -> set[int]:
        return {each.id for each in self.image.cluster.brokers.values() if each.rack == rack}

    def harmed(self, dead: set[int]) -> list[dict[str, Any]]:
        """Return the partitions that newly are down, refuse writes or are lost, the worst first."""
        order = ["lost", "offline", "unclean", "under_min", "at_min", "ok"]
        rows = []
        for topic, number, each in self.partitions:
            before, after = self.verdict(topic, each, set())[0], self.verdict(topic, each, dead)[0]
            bad = {*DOWN, "under_min"}
            if (
                (after in DOWN and before not in DOWN)
                or (after in bad and before not in bad)
                or after == "lost" != before
            ):
                rows.append({"topic": topic, "partition": number, "verdict": after})
        return sorted(rows, key=lambda row: order.index(row["verdict"]))

    def edges(self) -> set[tuple[int, int]]:
        """Return every two brokers that share a partition."""
        return {pair for _, _, each in self.partitions for pair in combinations(sorted(self.target(each)), 2)}

    def shared(self, one: set[int], other: set[int], least: int = 1) -> int:
        """Return the partitions with at least so many replicas in both sets."""
        targets = [set(self.target(each)) for _, _, each in self.partitions]
        return sum(len(target & one) >= least and len(target & other) >= least for target in targets)

    def copysets(self) -> Counter[int]:
        """Return the number of distinct targets by size."""
        return Counter(len(target) for target in {frozenset(self.target(each)) for _, _, each in self.partitions})

    def leader_optimum(self) -> int:
        """Return max over sets S of brokers of ceil(partitions that only S can lead / |S|)."""
        active = {each.id for each in self.image.cluster.brokers.values() if each.active}
        able = [options for _, _, each in self.partitions if (options := active.intersection(self.target(each)))]
        best = 0
        for size in range(1, len(active) + 1):
            for chosen in map(set, combinations(sorted(active), size)):
                best = max(best, -(-sum(options <= chosen for options in able) // size))
        return best

    def only(self, brokers: list[int]) -> int:
        """Return the number of partitions that only these brokers, and one at least, can lead."""
        active = {each.id for each in self.image.cluster.brokers.values() if each.active}
        able = [active.intersection(self.target(each)) for _, _, each in self.partitions]
        return sum(bool(options) and options <= set(brokers) for options in able)

    def topic(self, name: str) -> dict[str, int]:
        """Return a topic's row, without its fractions."""
        own = [each for topic, _, each in self.partitions if topic == name]
        held = Counter(broker for each in own for broker in self.target(each))
        led = Counter(each.leader for each in own if each.leader >= 0)
        eligible = {b.id for b in self.image.cluster.brokers.values() if b.active and b.has_uncordoned_dirs()}
        factors = [len(each.replicas) - len(each.adding_replicas) for each in own]
        total, width = sum(held.values()), max(1, len(eligible))
        return {
            "partitions": len(own),
            "replicas": total,
            "replication_factor": max(factors),
            "rf1": factors.count(1),
            "rf_is_min_isr": sum(self.min_isr(name, each) == rf for each, rf in zip(own, factors, strict=True)),
            "brokers_used": len(eligible & set(held)),
            "replicas_min": min((held[broker] for broker in eligible), default=0),
            "replicas_max": max(held.values(), default=0),
            "excess": sum(max(0, count - -(-total // width)) for count in held.values()),
            "leaders_max": max(led.values(), default=0),
            "leader_skew": max(0, max(led.values(), default=0) - -(-len(own) // width)),
        }

    def violations(self) -> list[tuple[str, int, str]]:
        """Return the violations, the most severe first."""
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
        order = ["offline", "under_min", "rack", "under_replicated", "rack_unknown"]
        return sorted(listed, key=lambda row: order.index(row[2]))
