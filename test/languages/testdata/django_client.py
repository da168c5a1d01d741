"""Appends with Django on the database of the first argument, a URL of SQLAlchemy."""

import sys

import django
import pymysql
from django.conf import settings
from sqlalchemy import make_url

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for that of mysqlclient

url = make_url(sys.argv[1])
engine = "django.db.backends." + ("postgresql" if url.drivername.startswith("postgresql") else "mysql")
database = {"ENGINE": engine, "HOST": url.host, "PORT": url.port, "NAME": url.database, "USER": url.username}
settings.configure(DATABASES={"default": database, "other": database | {}}, USE_TZ=True)
django.setup()

from django.db import transaction  # noqa: E402 - it needs the settings

from django_outbox import append  # noqa: E402


class Failed(Exception):
    pass


def failing(type):
    try:
        with transaction.atomic():
            append("Order", "django", type, {})
            raise Failed
    except Failed:
        pass


with transaction.atomic():
    append("Order", "django", "OrderPlaced", {"total": 1999})
failing("RolledBack")
with transaction.atomic():
    failing("Undone")
    append("Order", "django", "OrderPaid", {})
with transaction.atomic(using="other"):
    append("Order", "django", "OrderSent", {}, using="other")
    try:
        append("Order", "django", "NoTransaction", {})
    except RuntimeError:
        pass
    else:
        raise AssertionError("was not refused without a transaction")
