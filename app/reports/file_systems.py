"""File systems by URL: pyarrow opens here what Spark opens by Hadoop's connectors.

An S3 store is set up by Hadoop's own settings in `spark_conf`, so that they are written once for both:
spark.hadoop.fs.s3a.endpoint, .endpoint.region, .access.key, .secret.key, .session.token, .connection.ssl.enabled. What
is missing comes from the environment, as for the programs of AWS (AWS_ACCESS_KEY_ID, AWS_PROFILE, …), and so do the
credentials of the other stores.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs as arrow_fs

from app.file_urls import check_url, is_url, spark_url

_S3A: Final = "spark.hadoop.fs.s3a."


class FileSystemError(Exception):
    """A place cannot be opened. The text says which and why."""


class Place:
    """A folder at `location`, a path of this machine or a URL of `app.file_urls.SCHEMES`.

    `root` is its path in the file system `fs`.
    """

    def __init__(self, location: str, conf: Mapping[str, str] | None = None) -> None:
        """Raise FileSystemError for a URL that is not allowed or cannot be opened. Nothing is read yet."""
        self.location = location
        try:
            if is_url(location):
                check_url(location)
                self.fs, root = _open(location, conf or {})
            else:
                self.fs, root = arrow_fs.LocalFileSystem(), str(Path(location).absolute())
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FileSystemError(f"'{location}' cannot be opened: {error}") from error
        self.root = root.rstrip("/")
        self.is_local = isinstance(self.fs, arrow_fs.LocalFileSystem)

    def spark_path(self, path: str) -> str:
        """Return a path of `fs`, at or below `root`, as Spark opens it."""
        if self.is_local:
            return f"file://{path}"
        return spark_url(self.location).rstrip("/") + path.removeprefix(self.root)


def _open(url: str, conf: Mapping[str, str]) -> tuple[Any, str]:
    scheme, _, rest = url.partition("://")
    if scheme in {"s3", "s3a"}:
        return _s3(rest.partition("/")[0], conf), rest
    system, root = arrow_fs.FileSystem.from_uri(url)
    return system, root


def _s3(bucket: str, conf: Mapping[str, str]) -> Any:
    found = {key.removeprefix(_S3A): value for key, value in conf.items() if key.startswith(_S3A) and value}
    options: dict[str, Any] = {"allow_bucket_creation": False}
    names = {"access_key": "access.key", "secret_key": "secret.key", "session_token": "session.token"}
    options |= {name: found[key] for name, key in names.items() if key in found}
    endpoint = found.get("endpoint", "")
    if endpoint:
        scheme, separator, host = endpoint.rpartition("://")
        is_plain = scheme == "http" or (not separator and found.get("connection.ssl.enabled") == "false")
        options |= {"endpoint_override": host.rstrip("/"), "scheme": "http" if is_plain else "https"}
    region = found.get("endpoint.region")
    if region is None and not endpoint:
        region = arrow_fs.resolve_s3_region(bucket)
    return arrow_fs.S3FileSystem(region=region or "us-east-1", **options)
