"""The state of a cluster at an offset, computed from its lake alone, as docs/reports.md describes it."""

from msgspec import structs
from rpds import HashTrieMap

from app.reports.lake.lake import Lake
from kraft_core.image.metadata_delta import MetadataDelta
from kraft_core.image.metadata_image import MetadataImage, ScramCredential
from kraft_core.image.trie_items import items_of
from kraft_core.protocol.metadata_records import ConfigRecord, decode_record
from kraft_core.storage.dump_log import REDACTED, is_secret_setting

CONTROL = {"LeaderChange", "KRaftVersion", "KRaftVoters", "SnapshotHeader", "SnapshotFooter"}


def image_at(lake: Lake, cluster_id: str, offset: int) -> MetadataImage:
    """Replay the newest snapshot up to `offset`, if there is one, and the records after it up to `offset`."""
    files = lake.records_files(cluster_id)
    bases = [file for file in files if file.first is None and file.last <= offset]
    base = bases[-1] if bases else None
    after = -1 if base is None else base.last
    rows = [] if base is None else lake.read(base.path).to_pylist()
    for file in files:
        if file.first is not None and file.last > after:
            rows += [row for row in lake.read(file.path).to_pylist() if after < row["offset"] <= offset]
    delta = MetadataDelta(MetadataImage.EMPTY)
    for row in rows:
        if row["type"] not in CONTROL:
            delta.replay(decode_record(row["value"]))
    return delta.apply(offset, 0)


def without_secrets(image: MetadataImage) -> MetadataImage:
    """Return the image with empty SCRAM keys, and secret values of configs replaced."""

    def empty(credential: ScramCredential) -> ScramCredential:
        return structs.replace(credential, salt=b"", stored_key=b"", server_key=b"")

    scram = {
        mechanism: HashTrieMap({user: empty(each) for user, each in items_of(users)})
        for mechanism, users in items_of(image.scram)
    }
    configs = {
        resource: HashTrieMap(
            {
                name: REDACTED if is_secret_setting(ConfigRecord(name=name)) else value
                for name, value in items_of(values)
            }
        )
        for resource, values in items_of(image.configs.by_resource)
    }
    return structs.replace(
        image,
        scram=HashTrieMap(scram),
        configs=structs.replace(image.configs, by_resource=HashTrieMap(configs)),
    )
