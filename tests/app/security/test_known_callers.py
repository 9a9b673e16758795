"""A caller is looked up again after every commit to the database, by whichever process, and when its time has come."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session as OrmSession

from app.db.database import Database
from app.security import api_tokens
from app.security.known_callers import KnownCallers
from app.security.roles import Principal, Role
from tests.app.live import LiveWeb
from tests.app.security.test_tokens import make, token_of

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)
CALLER = Principal(kind="token", id=1, name="ci", own_role=Role.VIEWER)


def commit(database: Database) -> None:
    database.write_now(lambda session: session.execute(text("UPDATE noted SET number = number + 1")))


def test_a_caller_is_kept_until_a_commit_or_its_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a database.db'}"
    own, other = Database(url), Database(url)
    own.write_now(lambda session: session.execute(text("CREATE TABLE noted AS SELECT 1 AS number")))
    known, looks = KnownCallers(own), 0

    def look(_session: OrmSession) -> tuple[Principal, dt.datetime]:
        nonlocal looks
        looks += 1
        return CALLER, NOW + dt.timedelta(seconds=60)

    def looks_after_finding(key: str = "a", seconds: int = 0) -> int:
        assert asyncio.run(known.find(key, NOW + dt.timedelta(seconds=seconds), look)) is not None
        return looks

    try:
        assert [looks_after_finding() for _ in range(3)] == [1, 1, 1]
        assert looks_after_finding("b") == 2
        for expected, database in ((3, other), (4, own)):
            commit(database)
            assert [looks_after_finding(), looks_after_finding()] == [expected, expected]
        assert looks_after_finding(seconds=59) == 4
        assert looks_after_finding(seconds=60) == 5
    finally:
        own.close()
        other.close()


def test_what_was_found_before_a_commit_is_not_kept(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'web.db'}")
    database.write_now(lambda session: session.execute(text("CREATE TABLE noted AS SELECT 1 AS number")))
    known, looks = KnownCallers(database), 0

    def look(_session: OrmSession) -> tuple[Principal, dt.datetime]:
        nonlocal looks
        looks += 1
        commit(database)  # while the lookup runs
        return CALLER, NOW + dt.timedelta(seconds=60)

    try:
        for _ in range(3):
            asyncio.run(known.find("a", NOW, look))
        assert looks == 3
    finally:
        database.close()


@pytest.mark.parametrize("url", ["sqlite://", "postgresql://nobody@127.0.0.1:1/none"])
def test_a_database_without_such_a_number_is_asked_each_time(url: str) -> None:
    database = Database(url)
    try:
        assert database.version() is None
    finally:
        database.close()


def test_a_token_revoked_by_another_process_is_refused_at_once(web: LiveWeb) -> None:
    client = web.http(token_of(make(web.client, "revoked-elsewhere", "viewer")))
    for _ in range(3):
        assert client.get("/v3/clusters").status_code == 200
    other = Database(web.services.settings.sqlalchemy_url)
    try:
        other.write_now(api_tokens.revoke_token, "revoked-elsewhere", dt.datetime.now(dt.UTC))
    finally:
        other.close()
    assert client.get("/v3/clusters").status_code == 401
