"""URLs of files that this program and Spark both read, such as s3a://bucket/folder."""

from typing import Final

SCHEMES: Final = {
    "file": "file",
    "s3": "s3a",
    "s3a": "s3a",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "hdfs": "hdfs",
}
"""Allowed schemes, and the scheme of Hadoop's connector for each, by which Spark opens the same file."""


def is_url(text: str) -> bool:
    """Return whether a text is a URL and not a path."""
    return "://" in text


def check_url(url: str) -> None:
    """Raise ValueError with what is allowed, for a URL with another scheme, without a place, or with a query."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ValueError(f"must be a URL of {', '.join(SCHEMES)}")
    if scheme not in SCHEMES:
        raise ValueError(f"must be a URL of {', '.join(SCHEMES)}, not of '{scheme}'")
    if not rest.strip("/"):
        raise ValueError(f"must name a bucket or folder after {scheme}://")
    if "?" in rest or "#" in rest:
        raise ValueError("must have no '?' or '#': spark_conf and the environment have the settings of an object store")
    if "@" in rest and scheme in {"s3", "s3a"}:
        raise ValueError("must have no credentials: spark_conf and the environment have them")


def spark_url(url: str) -> str:
    """Return a URL as Spark opens it."""
    scheme, _, rest = url.partition("://")
    return f"{SCHEMES[scheme]}://{rest}"
