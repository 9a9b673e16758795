"""What differs between two states of the metadata, by resource."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from rpds import HashTrieMap

from app.texts import phrase
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.image.acls_image import AclsImage
from kraft_core.image.changes import image_changes
from kraft_core.image.metadata_image import (
    ClusterImage,
    ConfigurationsImage,
    FeaturesImage,
    MetadataImage,
    TopicsImage,
)
from kraft_core.image.trie_items import items_of
from kraft_core.protocol.metadata_version import METADATA_VERSION

How = Literal["added", "removed", "changed"]
LINES_MAX: Final = 1_000
_CONFIG_OF: Final = {CLIENT_METRICS: "client-metrics", GROUP: "group"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One resource that differs. `key` sorts the differences, and is the same in each comparison of two states.

    `before` and `after` have nothing but the resource.
    """

    kind: str
    name: str
    how: How
    key: tuple[int, str, str]
    before: MetadataImage
    after: MetadataImage

    @property
    def lines(self) -> list[str]:
        """What differs in words, as in the change feed; at most LINES_MAX lines, and one with the number of others."""
        found = list(image_changes(self.before, self.after))
        more = len(found) - LINES_MAX
        return found if more <= 0 else [*found[:LINES_MAX], f"… and {more} more"]


def differences(before: MetadataImage, after: MetadataImage) -> list[Difference]:
    """Return all differences by kind and name. The cost grows with what the two images do not share."""
    found: list[Difference] = []
    for rank, part in enumerate(_PARTS):
        old, new = part.of(before), part.of(after)
        for key in _differing(old, new):
            was, now = old.get(key), new.get(key)
            how: How = "added" if was is None else "removed" if now is None else "changed"
            name = part.name(key, was if now is None else now)
            sides = (MetadataImage.EMPTY if each is None else part.only(key, each) for each in (was, now))
            found.append(Difference(part.kind, name, how, (rank, name, str(key)), *sides))
    return sorted(found, key=lambda each: each.key)


def _differing(old: HashTrieMap[Any, Any], new: HashTrieMap[Any, Any]) -> Iterator[Any]:
    if old is new:
        return
    for key, value in items_of(new):
        was = old.get(key)
        if was is not value and not operator.eq(was, value):  # a topic has no != of its own
            yield key
    for key, _ in items_of(old):
        if key not in new:
            yield key


@dataclass(frozen=True, slots=True)
class _Part:
    """A kind of resource: its map in an image, a resource's name, and an image that has only this resource."""

    kind: str
    of: Callable[[MetadataImage], HashTrieMap[Any, Any]]
    name: Callable[[Any, Any], str]
    only: Callable[[Any, Any], MetadataImage]


def _levels(image: MetadataImage) -> HashTrieMap[str, int]:
    version, levels = image.features.metadata_version, image.features.levels
    return levels if version is None else levels.insert(METADATA_VERSION, version)


def _feature(name: str, level: int) -> MetadataImage:
    if name == METADATA_VERSION:
        return MetadataImage(features=FeaturesImage(metadata_version=level))
    return MetadataImage(features=FeaturesImage(levels=HashTrieMap({name: level})))


def _topic(topic_id: Any, topic: Any) -> MetadataImage:
    topics = TopicsImage(by_id=HashTrieMap({topic_id: topic}), by_name=HashTrieMap({topic.name: topic_id}))
    return MetadataImage(topics=topics)


def _config_name(key: tuple[int, str], _: Any) -> str:
    kind, name = key[0], key[1] or phrase("default")
    if kind == TOPIC:
        return phrase("topic %(name)s", name=name)
    if kind == BROKER:
        return phrase("broker %(name)s", name=name)
    return f"{_CONFIG_OF.get(kind, f'type {kind}')} {name}"


def _entity_name(entity: tuple[tuple[str, str | None], ...], _: Any) -> str:
    return ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)


_PARTS: Final = (
    _Part("feature", _levels, lambda name, _: str(name), _feature),
    _Part(
        "broker",
        lambda image: image.cluster.brokers,
        lambda broker_id, _: str(broker_id),
        lambda key, value: MetadataImage(cluster=ClusterImage(brokers=HashTrieMap({key: value}))),
    ),
    _Part(
        "controller",
        lambda image: image.cluster.controllers,
        lambda node_id, _: str(node_id),
        lambda key, value: MetadataImage(cluster=ClusterImage(controllers=HashTrieMap({key: value}))),
    ),
    _Part("topic", lambda image: image.topics.by_id, lambda _, topic: str(topic.name), _topic),
    _Part(
        "config",
        lambda image: image.configs.by_resource,
        _config_name,
        lambda key, value: MetadataImage(configs=ConfigurationsImage(HashTrieMap({key: value}))),
    ),
    _Part(
        "quota",
        lambda image: image.client_quotas,
        _entity_name,
        lambda key, value: MetadataImage(client_quotas=HashTrieMap({key: value})),
    ),
    _Part(
        "acl",
        lambda image: image.acls.by_id,
        lambda _, acl: f"{acl.principal} on {acl.resource_name}",
        lambda key, value: MetadataImage(acls=AclsImage().insert(key, value)),
    ),
    _Part(
        "scram",
        lambda image: image.scram,
        lambda mechanism, _: {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}.get(mechanism, str(mechanism)),
        lambda key, value: MetadataImage(scram=HashTrieMap({key: value})),
    ),
    _Part(
        "delegation-token",
        lambda image: image.delegation_tokens,
        lambda _, token: str(token.owner),
        lambda key, value: MetadataImage(delegation_tokens=HashTrieMap({key: value})),
    ),
)
