"""Idempotency-Key: a request that is repeated with the same key gets the same answer and has one effect.

Another request under the same key is 422; the same one while the first still runs is 409 (IETF draft idempotency-key-07).
Keys belong to their caller and are forgotten after a day. Where the effect is not known (the quorum did not answer), the
key is given free: the repeat then tells.
"""

import contextlib
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.db.database import Database
from app.db.models import IdempotencyKey
from app.db.outage import DatabaseUnavailableError
from app.http.errors import ApiError, of_kafka, problem
from app.security.service import fingerprint
from kraft_core.protocol.errors import KafkaError

KEPT: Final = dt.timedelta(days=1)
ABANDONED: Final = dt.timedelta(minutes=2)  # longer than any request may run
REPLAYED: Final = "Idempotent-Replayed"


def _begin(session: Session, key: str, actor: str, print_: str, now: dt.datetime) -> IdempotencyKey | None:
    """Reserve the key; return the earlier use of it, None when this is the first."""
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now - KEPT))
    found = session.scalars(
        select(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.actor == actor)
    ).one_or_none()
    if found is not None and found.status is None and found.created_at < now - ABANDONED:
        session.delete(found)
        session.flush()
        found = None
    if found is None:
        session.add(
            IdempotencyKey(key=key, actor=actor, fingerprint=print_, created_at=now, status=None, headers={}, body="")
        )
        session.flush()
    return found


def _finish(session: Session, key: str, actor: str, status: int, headers: dict[str, str], body: str) -> None:
    found = session.scalars(
        select(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.actor == actor)
    ).one_or_none()
    if found is not None:
        found.status, found.headers, found.body = status, headers, body


def _release(session: Session, key: str, actor: str) -> None:
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.actor == actor))


async def once(
    database: Database, key: str | None, actor: str, request: Request, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Run `work` unless `key` has run before; then give that answer again. Without a key, just run it.

    Raises ApiError 409 and 422 as said above, and what `work` raises.
    """
    if key is None:
        return await work()
    print_ = fingerprint(request.method, request.url.path, (await request.body()).hex())
    try:
        earlier = await database.write(_begin, key, actor, print_, utc_now())
    except IntegrityError:  # another request with this key was quicker by a hair; now its row is there
        earlier = await database.write(_begin, key, actor, print_, utc_now())
    if earlier is not None:
        return _replay(earlier, print_)
    try:
        response = await work()
    except BaseException as error:  # a cancelled request too must give the key free
        if isinstance(error, KafkaError) and not error.retriable:
            refused, extra = of_kafka(error, v3=True)
            body = json.dumps(problem(refused, request.state.request_id, extra))
            headers = {"content-type": "application/json"}
            await database.write(_finish, key, actor, refused.status, headers, body)
        else:
            await database.write(_release, key, actor)
        raise
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    with contextlib.suppress(DatabaseUnavailableError):  # the change is made and says so
        await database.write(_finish, key, actor, response.status_code, headers, bytes(response.body).decode())
    return response


def _replay(earlier: IdempotencyKey, print_: str) -> Response:
    if earlier.fingerprint != print_:
        raise ApiError(422, "This Idempotency-Key was used for another request.", code="idempotency-key-reused")
    if earlier.status is None:
        raise ApiError(409, "The request with this Idempotency-Key is still running.", headers={"Retry-After": "1"})
    return Response(earlier.body, earlier.status, headers={**earlier.headers, REPLAYED: "true"})
