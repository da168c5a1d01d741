"""Writes the events that clients_test.go expects, to each database whose URL of SQLAlchemy is an argument."""

import asyncio
import sys
from datetime import datetime, timezone
from uuid import UUID

from outbox import Event, InvalidEvent, OutboxSession, Raises, append
from sqlalchemy import ForeignKey, create_engine, event, exc, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker


class Base(DeclarativeBase):
    pass


class Order(Raises, Base):
    __tablename__ = "python_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int] = mapped_column(default=0)
    first_id: Mapped[int | None] = mapped_column(ForeignKey("python_orders.id"))
    first: Mapped["Order | None"] = relationship(remote_side=[id])


def made(client, type, **rest):
    return Event("Order", client, type, "{}", **rest)


def full(client, id):
    return Event(
        "Order", "o-1", "Full", '{"name": "é😀"}', id=UUID(id), occurred_at=datetime(2026, 1, 2, 3, 4, 5, 678000, timezone.utc),
        content_type="application/vnd.order+json", tenant_id="acme", partition_key=client, schema_id="shop.Full", schema_version=2,
        headers={"traceparent": "00-1", "quote": 'a"b\\c\n é😀'},
    )


def refused(error, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except error:
        return
    raise AssertionError(f"was not refused with {error}")


class Failed(Exception):
    pass


def core(engine):
    """append, in a transaction of a connection."""
    id = "019aa6a0-7b7c-7cc0-8000-00000000000c"
    with engine.connect() as connection:
        refused(RuntimeError, append, connection, made("sqlalchemy", "NoTransaction"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, connection.begin():
        refused(RuntimeError, append, connection, made("sqlalchemy", "Autocommitted"))
    automatic = create_engine(engine.url, isolation_level="AUTOCOMMIT")
    with automatic.begin() as connection:
        refused(RuntimeError, append, connection, made("sqlalchemy", "Autocommitted"))
    automatic.dispose()
    with engine.begin() as connection:
        for bad in [
            made("", "Bad"), made("sqlalchemy", ""), made("sqlalchemy", "a\0b"), made("sqlalchemy", "\ud800"), made("sqlalchemy", 7),
            made("sqlalchemy", "Bad", headers={"CE_id": ""}), made("sqlalchemy", "Bad", headers={"Content-Type": ""}),
            made("sqlalchemy", "Bad", headers={"a": 1}), made("sqlalchemy", "Bad", schema_version=1 << 31),
            made("sqlalchemy", "Bad", occurred_at=datetime.now()), made("sqlalchemy", "Bad", tombstone=True),
            Event("Order", "sqlalchemy", "Bad"), Event("Order", "sqlalchemy", "Bad", bytes((1 << 20) + 1)),
        ]:
            refused(InvalidEvent, append, connection, made("sqlalchemy", "Good"), bad)
        append(connection, full("sqlalchemy", id), Event("Order", "sqlalchemy", "Tombstone", tombstone=True))
        append(connection, made("sqlalchemy", "Before"))
        savepoint = connection.begin_nested()
        append(connection, made("sqlalchemy", "Undone"))
        savepoint.rollback()
        append(connection, made("sqlalchemy", "After"))
    with engine.connect() as connection, connection.begin() as transaction:
        append(connection, made("sqlalchemy", "RolledBack"))
        transaction.rollback()
    with engine.connect() as connection, connection.begin():
        refused(exc.IntegrityError, append, connection, full("sqlalchemy", id))  # the same ID again


def undone(session, type, order=None):
    """Raises events behind a savepoint that is rolled back, one of them after it was appended."""
    try:
        with session.begin_nested():
            session.raise_events(made("session", type))
            session.flush()
            if order:
                order.raise_event(made("session", type))
                order.total += 1
            session.raise_events(made("session", type))
            raise Failed
    except Failed:
        pass


def session_events(engine):
    """OutboxSession, with aggregates that raise events."""
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with OutboxSession(engine) as session:
        undone(session, "UndoneFirst")
        order = Order(id=1)
        order.raise_event(full("session", "019aa6a0-7b7c-7cc0-8000-00000000000d"))  # before it is in a session
        session.add(order)
        order.raise_event(Event("Order", "session", "Tombstone", tombstone=True))
        with session.begin_nested():
            order.raise_event(made("session", "Before"))
        undone(session, "Undone", order)
        order.raise_event(made("session", "After"))
        session.commit()
        for end in (session.rollback, session.close, session.reset):
            session.raise_events(made("session", "RolledBack"))
            end()
            session.commit()
        session.add(Order(id=2))
        session.raise_events(made("session", ""))
        refused(InvalidEvent, session.commit)
        refused(InvalidEvent, session.commit)  # it does not commit the order without the event either
    with OutboxSession(engine) as session:
        assert session.get(Order, 2) is None
    lonely = Order(id=3)
    lonely.raise_event(made("session", "PlainSession"))
    with Session(engine) as session:
        refused(TypeError, session.add, lonely)
    hooks(sessionmaker(engine, class_=OutboxSession))


def hooks(sessions):
    """Events that listeners raise, and those of detached objects that are merged."""

    def flushed(session, _):
        session.raise_events(made("session", "Flush"))
        savepoint = session.begin(nested=True)
        session.raise_events(made("session", "UndoneInFlush"))
        savepoint.rollback()

    event.listen(sessions, "before_commit", lambda session: session.raise_events(made("session", "Commit")))
    event.listen(sessions, "after_commit", lambda session: refused(exc.InvalidRequestError, session.raise_events, made("session", "Late")))
    with sessions() as session:
        order = session.get(Order, 1)
    order.raise_event(made("session", "Cascaded"))
    second = Order(id=4, first=order)
    second.raise_event(made("session", "Merged"))
    with sessions.begin() as session:
        session.merge_all([second])
    event.listen(sessions, "after_flush_postexec", flushed)
    with sessions() as session:
        session.add(Order(id=5))
        session.flush()
        session.commit()
        session.add(Order(id=6))
        session.commit()


async def in_asyncio(url):
    engine = create_async_engine(url)
    async with AsyncSession(engine, sync_session_class=OutboxSession) as session, session.begin():
        await session.execute(text("SELECT 1"))
        session.sync_session.raise_events(full("asyncio", "019aa6a0-7b7c-7cc0-8000-00000000000e"))
        async with session.begin_nested():
            session.sync_session.raise_events(Event("Order", "asyncio", "Tombstone", tombstone=True), made("asyncio", "Before"))
        session.sync_session.raise_events(made("asyncio", "After"))
    await engine.dispose()


for argument in sys.argv[1:]:
    url = make_url(argument)
    engine = create_engine(url)
    core(engine)
    session_events(engine)
    engine.dispose()
    if url.get_backend_name() == "postgresql":
        asyncio.run(in_asyncio(url))
