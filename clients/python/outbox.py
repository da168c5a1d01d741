"""Appends events to cdc-relay's outbox table in the caller's transaction, with SQLAlchemy 2, on PostgreSQL, MySQL and MariaDB. The relay
publishes them after the commit.

Copy this file into your project. It needs Python 3.10 and a table whose payload column takes bytes, the default of
`cdc-relay schema print`.

    with OutboxSession(engine) as session, session.begin():
        session.add(order)
        session.raise_events(Event("Order", order.id, "OrderPlaced", json.dumps(...)))
"""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from uuid import UUID

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.orm import Session, object_session

MAX_PAYLOAD = 1 << 20  # bytes
MYSQL_TEXT = 255  # characters in a column


def uuid7() -> UUID:
    """Returns a UUID of version 7: such IDs increase with time, which keeps the index small."""
    random = secrets.randbits(74)
    return UUID(int=time.time_ns() // 1_000_000 << 80 | 7 << 76 | random >> 62 << 64 | 2 << 62 | random & (1 << 62) - 1)


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, kw_only=True)
class _Optional:
    """The ID is set here and not when the event is written, so that a transaction that is run again writes the same one."""

    id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=now)
    content_type: str = "application/json"
    tenant_id: str | None = None
    topic: str | None = None  # overrides the relay's routes
    partition_key: str | None = None  # replaces aggregate_id as the record's key
    schema_id: str | None = None
    schema_version: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    tombstone: bool = False  # the record has a null value, which deletes its key from a compacted topic


@dataclass(frozen=True)
class Event(_Optional):
    """One row of the table and one record."""

    aggregate_type: str
    aggregate_id: str
    type: str
    payload: bytes | str | None = None


class InvalidEvent(ValueError):
    """An event that the table or the relay would refuse. Nothing was sent to the database."""


def append(connection: Connection, *events: Event, table: str = "outbox") -> None:
    """Appends events in order, in the connection's transaction. If it fails, roll back. table is written into the SQL as it is."""
    if not connection.in_transaction() or _autocommits(connection):
        raise RuntimeError("the connection is not in a transaction: begin one, and use no engine with the isolation level AUTOCOMMIT")
    postgres = connection.dialect.name == "postgresql"
    for i, e in enumerate(events):
        if reason := _invalid(e, postgres):
            raise InvalidEvent(f"event {i}: {reason}")
    if events:
        connection.execute(text(_insert(table, postgres)), [_row(e, postgres) for e in events])


def _autocommits(connection: Connection) -> bool:
    """Asks the driver: psycopg has an attribute, those of MySQL a method, and asyncpg is covered by the options."""
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return True
    driver = connection.connection.dbapi_connection
    return getattr(driver, "autocommit", None) is True or bool(getattr(driver, "get_autocommit", bool)())


def _insert(table: str, postgres: bool) -> str:
    event_id, headers, current = ("CAST(:event_id AS uuid)", "CAST(:headers AS jsonb)", "now()")
    if not postgres:
        event_id, headers, current = (":event_id", ":headers", "UTC_TIMESTAMP(6)")
    return f"""INSERT INTO {table} (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type,
    schema_id, schema_version, headers, payload, occurred_at, created_at)
VALUES ({event_id}, :aggregate_type, :aggregate_id, :event_type, :tenant_id, :topic, :partition_key, :content_type,
    :schema_id, :schema_version, {headers}, :payload, :occurred_at, COALESCE(:created_at, {current}))"""


def _row(e: Event, postgres: bool) -> dict:
    return {
        "event_id": str(e.id) if postgres else e.id.bytes,
        "aggregate_type": e.aggregate_type,
        "aggregate_id": e.aggregate_id,
        "event_type": e.type,
        "tenant_id": e.tenant_id or None,
        "topic": e.topic or None,
        "partition_key": e.partition_key or None,
        "content_type": e.content_type,
        "schema_id": e.schema_id or None,
        "schema_version": e.schema_version or None,
        "headers": json.dumps(dict(e.headers)) if e.headers else None,
        "payload": e.payload.encode() if isinstance(e.payload, str) else e.payload,
        "occurred_at": _utc(e.occurred_at, postgres),
        "created_at": _utc(_time_of(e.id), postgres),
    }


def _utc(at: datetime | None, postgres: bool) -> datetime | None:
    """MySQL's columns have no time zone."""
    if at is None:
        return None
    at = at.astimezone(timezone.utc)
    return at if postgres else at.replace(tzinfo=None)


def _time_of(id: UUID) -> datetime | None:
    """Returns the time in an ID of version 7. As created_at it makes the table's key refuse the same ID twice."""
    if id.version != 7:
        return None
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=id.int >> 80)


def _invalid(e: Event, postgres: bool) -> str:
    """Returns why the event is refused, with the fix, or an empty string."""
    for name in ("aggregate_type", "aggregate_id", "type", "content_type"):
        if not getattr(e, name):
            return f"{name} is empty: set it"
    for name in ("aggregate_type", "aggregate_id", "type", "content_type", "tenant_id", "topic", "partition_key", "schema_id"):
        value = getattr(e, name) or ""
        if not _storable(value):
            return f"{name} is no text, or holds U+0000 or half of a surrogate pair: correct it"
        if not postgres and len(value) > MYSQL_TEXT:
            return f"{name} has more than {MYSQL_TEXT} characters: shorten it"
    for name, value in e.headers.items():
        if not name or name.lower().startswith("ce_") or name.lower() == "content-type":
            return f"header {name!r} is reserved or empty: choose another name"
        if not _storable(name) or not _storable(value):
            return f"header {name!r} is no text, or holds U+0000 or half of a surrogate pair: correct it"
    if (e.payload is None) != e.tombstone:
        return "payload is missing, or set in a tombstone: set it, or tombstone, and not both"
    if isinstance(e.payload, str) and not _encodable(e.payload):
        return "payload holds half of a surrogate pair: remove it"
    if e.payload is not None and len(e.payload.encode() if isinstance(e.payload, str) else e.payload) > MAX_PAYLOAD:
        return f"payload has more than {MAX_PAYLOAD} bytes: store the data elsewhere and send a reference"
    if e.occurred_at.tzinfo is None:
        return "occurred_at has no time zone: use datetime.now(timezone.utc)"
    if not 0 <= (e.schema_version or 0) < 1 << 31:
        return "schema_version is out of range: give 1 to 2147483647"
    return ""


def _encodable(s: str) -> bool:
    try:
        s.encode()
    except UnicodeEncodeError:
        return False
    return True


def _storable(s: object) -> bool:
    return isinstance(s, str) and "\0" not in s and _encodable(s)


class OutboxSession(Session):
    """A session that appends raised events before it commits, and before each savepoint, so that what is rolled back takes its events
    with it. With binds, bind must be the database of what is changed: events go there. For asyncio:
    AsyncSession(engine, sync_session_class=OutboxSession), and session.sync_session.raise_events.
    """

    outbox_table = "outbox"

    def __init__(self, *args, **kwargs):
        self._raised: list[Event] = []
        self._committing = None  # the transaction or savepoint
        super().__init__(*args, **kwargs)

    def raise_events(self, *events: Event) -> None:
        """Has events appended before the commit, in order. A bad event makes the commit fail, so that everything is rolled back."""
        if not self.in_transaction():
            self.begin()  # so that a rollback knows of them
        self._raised.extend(events)
        if self._committing:  # nothing appends them later; outside of a commit asyncio allows no statement here
            self._append_raised()

    def flush(self, objects=None) -> None:
        super().flush(objects)  # it may raise events
        self._append_raised()

    def begin(self, nested: bool = False):
        if nested:
            self._append_raised()
        return super().begin(nested)

    def merge(self, instance, **options):
        merged = super().merge(instance, **options)
        self._take_merged(instance)
        return merged

    def merge_all(self, instances, **options):  # of SQLAlchemy 2.1
        given = list(instances)
        merged = super().merge_all(given, **options)
        self._take_merged(*given)
        return merged

    def _take_merged(self, *instances) -> None:
        for state in map(inspect, instances):
            for given in [state.obj(), *(found[0] for found in state.mapper.cascade_iterator("merge", state))]:
                _take_events(self, given)

    def _append_raised(self) -> None:
        if events := tuple(self._raised):
            append(self.connection(), *events, table=self.outbox_table)
            del self._raised[: len(events)]  # not before: a second commit must not leave them out


class Raises:
    """For mapped classes that raise events: self.raise_event(Event(...)). Events of an object that is in no session wait until it is
    added to one or merged; the bulk methods take none. A transaction that is run again must load or make its objects again.
    """

    def raise_event(self, e: Event) -> None:
        session = object_session(self)
        if session is None:
            self.__dict__.setdefault("_raised_events", []).append(e)
        else:
            _raise(session, [e])


def _raise(session: Session, events: list[Event]) -> None:
    if not isinstance(session, OutboxSession):
        raise TypeError("the object raised events, and its session is no OutboxSession: make it one")
    session.raise_events(*events)


@event.listens_for(Session, "after_attach")
def _take_events(session: Session, instance: object) -> None:
    if events := instance.__dict__.pop("_raised_events", None):
        _raise(session, events)


@event.listens_for(OutboxSession, "before_commit")
def _before_commit(session: OutboxSession) -> None:
    session._append_raised()
    session._committing = session._committing or session.get_nested_transaction() or session.get_transaction()


@event.listens_for(OutboxSession, "after_transaction_end")
def _after_end(session: OutboxSession, transaction) -> None:
    """What is left was raised in a transaction, or since a savepoint, that was rolled back."""
    if transaction.nested or transaction.parent is None:
        session._raised.clear()
    if transaction is session._committing:
        session._committing = None
