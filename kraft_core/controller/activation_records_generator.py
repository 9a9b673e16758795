"""The records that a new active controller appends first.

- Empty log: the bootstrap metadata, in a metadata transaction if metadata.version supports it (KIP-868).
- Log that ends inside a transaction: the abort of the transaction.
- Any other log: nothing.

Source: ActivationRecordsGenerator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.configs.config_resource import BROKER
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from kraft_core.protocol.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    is_metadata_transaction_supported,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraft_core.protocol.metadata_records import MetadataRecord


def activation_records(
    metadata_version: int | None,
    *,
    in_transaction: bool,
    bootstrap_features: Mapping[str, int],
    bootstrap_records: Sequence[MetadataRecord],
    min_insync_replicas: int,
) -> ControllerResult[None]:
    """Return the activation records for an image with `metadata_version`; None means an empty log.

    `bootstrap_records`: the other records of bootstrap.checkpoint, such as SCRAM credentials.
    Raises AssertionError for an open transaction that metadata.version does not support.
    """
    level = bootstrap_features[METADATA_VERSION] if metadata_version is None else metadata_version
    with_transactions = is_metadata_transaction_supported(level)
    assert with_transactions or not in_transaction, (
        f"the log ends inside a metadata transaction, which metadata.version {level} does not support"
    )
    records: list[MetadataRecord] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if metadata_version is not None:
        return ControllerResult(records, None, is_atomic=True)
    if with_transactions:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
    records.append(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
    for name, feature_level in sorted(bootstrap_features.items()):
        if name not in {METADATA_VERSION, KRAFT_VERSION} and feature_level > 0:
            records.append(FeatureLevelRecord(name=name, feature_level=feature_level))
    records.extend(bootstrap_records)
    if bootstrap_features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records.append(
            ConfigRecord(
                resource_type=BROKER, resource_name="", name="min.insync.replicas", value=str(min_insync_replicas)
            )
        )
    if with_transactions:
        records.append(EndTransactionRecord())
    return ControllerResult(records, None, is_atomic=not with_transactions)
