"""UpdateFeatures, most of them rejected."""

from collections.abc import Iterator

from kraft_core.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
)
from tests.interop.answers.controller_requests.case import TIMEOUT_MS, Case, fixed


def feature_requests() -> Iterator[Case]:
    """Return UpdateFeatures requests, most of them rejected."""
    for name, level, kind in (
        ("metadata.version", 30, 1),
        ("metadata.version", 29, 1),
        ("metadata.version", 29, 2),
        ("metadata.version", 99, 1),
        ("metadata.version", 0, 3),
        ("metadata.version", -1, 1),
        ("kraft.version", 0, 2),
        ("kraft.version", 1, 1),
        ("kraft.version", 2, 1),
        ("no.such.feature", 1, 1),
        ("transaction.version", 1, 2),
        ("transaction.version", 2, 1),
        ("transaction.version", 3, 1),
        ("group.version", 0, 2),
        ("group.version", 1, 1),
        ("share.version", 1, 1),
        ("metadata.version", 30, 9),
        ("", 1, 1),
    ):
        update = UpdateFeaturesRequestFeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for validate_only in (True, False):
            for version in (1, 2):
                yield fixed(
                    f"feature {name} {level} type {kind} only {validate_only}",
                    UpdateFeaturesRequest(
                        timeout_ms=TIMEOUT_MS, feature_updates=(update,), validate_only=validate_only
                    ),
                    version,
                )
    yield fixed("no features", UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=()), 2)
    for name, level, kind in (
        ("eligible.leader.replicas.version", 0, 1),
        ("eligible.leader.replicas.version", 0, 2),
        ("eligible.leader.replicas.version", 0, 2),
        ("eligible.leader.replicas.version", 1, 2),
        ("eligible.leader.replicas.version", 1, 1),
        ("streams.version", 0, 3),
        ("streams.version", 1, 1),
        ("share.version", 0, 2),
        ("transaction.version", 0, 2),
        ("transaction.version", 1, 1),
        ("metadata.version", 28, 2),
        ("metadata.version", 28, 3),
        ("metadata.version", 7, 3),
        ("metadata.version", 6, 3),
    ):
        update = UpdateFeaturesRequestFeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        yield fixed(f"feature {name} to {level} by {kind}", UpdateFeaturesRequest(feature_updates=(update,)), 2)
    for allow in (False, True):
        for level in (0, 1, 2, 3):
            update = UpdateFeaturesRequestFeatureUpdateKey(
                feature="transaction.version", max_version_level=level, allow_downgrade=allow
            )
            yield fixed(f"by v0 to {level}, {allow}", UpdateFeaturesRequest(feature_updates=(update,)), 0)
    yield from several_features()


def several_features() -> Iterator[Case]:
    """Return updates of several features, which succeed or fail together."""
    for updates in (
        (("group.version", 1), ("share.version", 1)),
        (("group.version", 1), ("share.version", 9)),
        (("metadata.version", 30), ("transaction.version", 2)),
        (("group.version", 1), ("kraft.version", 1)),
    ):
        request = UpdateFeaturesRequest(
            feature_updates=tuple(
                UpdateFeaturesRequestFeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
                for name, level in updates
            )
        )
        for version in (1, 2):
            yield fixed(f"features {updates}", request, version)
