"""Conditional requests: entity tags of topics, If-Match and If-None-Match."""

import hashlib
from typing import Annotated

import msgspec
from fastapi import Header, Request
from fastapi.responses import Response

from app.http.entity_tags import is_among
from app.http.errors import PreconditionFailedError
from kraft_core.configs.config_resource import TOPIC
from kraft_core.image.metadata_image import MetadataImage, TopicImage

IfMatch = Annotated[str | None, Header(description="change only this state of the topic (an ETag)")]


def topic_etag(image: MetadataImage, topic: TopicImage) -> str:
    """Return the topic's entity tag: a digest of its id, partitions and configs, equal in every web process."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(topic.id.bytes)
    digest.update(msgspec.msgpack.encode(topic.sorted_partitions()))
    digest.update(msgspec.msgpack.encode(sorted(image.configs.of(TOPIC, topic.name).items())))
    return f'"{digest.hexdigest()}"'


def check_if_match(if_match: str | None, etag: str) -> None:
    """Raise PreconditionFailedError when If-Match names another state of the resource."""
    if if_match is not None and not is_among(etag, if_match):
        raise PreconditionFailedError("The topic has changed since it was read; read it again.", headers={"ETag": etag})


def is_not_modified(request: Request, etag: str) -> bool:
    """Report whether the client already has this state (If-None-Match)."""
    return is_among(etag, request.headers.get("if-none-match"))


def not_modified(etag: str) -> Response:
    """Return 304."""
    return Response(status_code=304, headers={"ETag": etag})
