"""Clusters and groups for tests of assignors."""

from collections.abc import Mapping
from dataclasses import dataclass

from kraft_core.clients.client_metadata import Node, TopicInfo


@dataclass(frozen=True)
class SomeCluster:
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicInfo]
