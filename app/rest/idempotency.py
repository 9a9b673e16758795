"""Idempotency-Key: a request that is repeated with the same key has one effect and gets the same answer.

Source: IETF draft idempotency-key-header-07. Another request with the same key is refused with 422, a repetition while
the first is still running with 409. Keys belong to their caller and expire after a day. When the effect of a request is
unknown (the quorum did not respond), its key is released: the repetition shows what happened.

The process may die while it runs a request. A repetition of a creation then looks for what is to be made: what did not
exist when the key was first used, and exists as it was asked for, is the effect of the request.
"""

import contextlib
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import Header, Request
from fastapi.responses import Response
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.db.database import Database
from app.db.models import IdempotencyKey
from app.db.outage import DatabaseUnavailableError
from app.http.errors import ConflictError, UnprocessableError, of_kafka, problem
from app.security.service import fingerprint
from kraft_core.protocol.errors import ErrorCode, KafkaError

KEPT: Final = dt.timedelta(days=1)
ABANDONED: Final = dt.timedelta(minutes=2)  # longer than any request may run
RESUMED: Final = dt.timedelta(seconds=5)  # longer than a creation takes, unless its process died
REPLAYED: Final = "Idempotent-Replayed"

_IS_NEW: Final = "is-new"
"""Kept while a creation runs: what it makes did not exist before."""

IdempotencyKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="makes the request safe to repeat for a day",
    ),
]


def _find(session: Session, key: str, actor: str) -> IdempotencyKey | None:
    return session.scalars(
        select(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.actor == actor)
    ).one_or_none()


def _begin(
    session: Session, key: str, actor: str, print_: str, now: dt.datetime, *, is_new: bool
) -> IdempotencyKey | None:
    """Reserve the key. Return its earlier use, None when this is the first."""
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now - KEPT))
    found = _find(session, key, actor)
    if found is not None and found.status is None and found.created_at < now - ABANDONED:
        session.delete(found)
        session.flush()
        found = None
    if found is None:
        session.add(
            IdempotencyKey(
                key=key,
                actor=actor,
                fingerprint=print_,
                created_at=now,
                status=None,
                headers={_IS_NEW: "true"} if is_new else {},
                body="",
            )
        )
        session.flush()
    return found


def _finish(session: Session, key: str, actor: str, status: int, headers: dict[str, str], body: str) -> None:
    found = _find(session, key, actor)
    if found is not None:
        found.status, found.headers, found.body = status, headers, body


def _release(session: Session, key: str, actor: str) -> None:
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.actor == actor))


@dataclass(frozen=True, slots=True)
class Creation:
    """What a request is to make: whether it was absent at first, and the answer once it exists as asked for."""

    is_new: bool
    found: Callable[[], Response | None]


async def once(
    database: Database,
    key: str | None,
    actor: str,
    request: Request,
    work: Callable[[], Awaitable[Response]],
    creation: Creation | None = None,
) -> Response:
    """Run `work`, or repeat the answer that an earlier request with `key` got. Without a key, run `work`.

    Raises ConflictError while the earlier request is running, UnprocessableError when it was a different one, and what
    `work` raises.
    """
    if key is None:
        return await work()
    print_ = fingerprint(request.method, request.url.path, (await request.body()).hex())
    begin = partial(_begin, is_new=creation is not None and creation.is_new)
    try:
        earlier = await database.write(begin, key, actor, print_, utc_now())
    except IntegrityError:  # a concurrent request reserved the key; its row exists now
        earlier = await database.write(begin, key, actor, print_, utc_now())
    if earlier is not None:
        resumed = None if creation is None else await _resumed(earlier, print_, creation, work)
        if resumed is None:
            return _replay(earlier, print_)
        await _keep(database, key, actor, resumed)
        return resumed
    try:
        response = await work()
    except BaseException as error:  # also when the request is cancelled
        if isinstance(error, KafkaError) and not error.retriable:
            refused, extra = of_kafka(error, v3=True)
            body = json.dumps(problem(refused, request.state.request_id, extra))
            headers = {"content-type": "application/json"}
            await database.write(_finish, key, actor, refused.status, headers, body)
        else:
            await database.write(_release, key, actor)
        raise
    await _keep(database, key, actor, response)
    return response


async def _keep(database: Database, key: str, actor: str, response: Response) -> None:
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    with contextlib.suppress(DatabaseUnavailableError):  # the change is committed; its answer must be sent
        await database.write(_finish, key, actor, response.status_code, headers, bytes(response.body).decode())


async def _resumed(
    earlier: IdempotencyKey, print_: str, creation: Creation, work: Callable[[], Awaitable[Response]]
) -> Response | None:
    """Return the answer of a creation whose process may have died, None while it may still be running."""
    if earlier.status is not None or earlier.fingerprint != print_ or _IS_NEW not in earlier.headers:
        return None
    found = creation.found()
    if found is not None or earlier.created_at > utc_now() - RESUMED:
        return found
    try:
        return await work()
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return None  # this process has not read it yet


def _replay(earlier: IdempotencyKey, print_: str) -> Response:
    if earlier.fingerprint != print_:
        raise UnprocessableError(
            f"Idempotency-Key '{earlier.key[:40]}' was used for another request; choose a new one.",
            code="idempotency-key-reused",
        )
    if earlier.status is None:
        raise ConflictError(
            f"The request with Idempotency-Key '{earlier.key[:40]}' is still running.",
            retry_after_seconds=1,
        )
    return Response(earlier.body, earlier.status, headers={**earlier.headers, REPLAYED: "true"})
