"""Appends events to the outbox in Django's current transaction. Copy this file."""

import json
import uuid
from datetime import datetime, timezone

from django.db import connections


def append(aggregate_type: str, aggregate_id: str, event_type: str, payload: dict, using: str = "default") -> None:
    """Appends an event in the current transaction of the database with the alias using, and raises RuntimeError outside of one."""
    connection = connections[using]
    if not connection.in_atomic_block:
        raise RuntimeError("there is no transaction: call append in transaction.atomic(), with the same using")
    event_id, now = uuid.uuid4(), datetime.now(timezone.utc)
    if connection.vendor == "mysql":  # and MariaDB
        event_id, now = event_id.bytes, now.replace(tzinfo=None)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, payload)
               VALUES (%s, %s, %s, %s, %s, %s)""",
            [event_id, aggregate_type, aggregate_id, event_type, now, json.dumps(payload).encode()],
        )
