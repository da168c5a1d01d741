"""Runs the example for Django of a page, the first argument, on the database of the second, a URL of SQLAlchemy."""

import sys

import django
import pymysql
from django.conf import settings
from sqlalchemy import make_url

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for that of mysqlclient

url = make_url(sys.argv[2])
engine = "django.db.backends." + ("postgresql" if url.drivername.startswith("postgresql") else "mysql")
settings.configure(DATABASES={"default": {"ENGINE": engine, "HOST": url.host, "PORT": url.port, "NAME": url.database, "USER": url.username}}, USE_TZ=True)
django.setup()


class Order:
    id, total = "django", 1999

    def save(self):
        pass


with open(sys.argv[1]) as page:
    example = page.read().split("## Django")[1].split("```python\n")[1].split("```")[0]
names = {"order": Order()}
exec(example, names)
append, transaction = names["append"], names["transaction"]


class Failed(Exception):
    pass


def failing(type):
    try:
        with transaction.atomic():
            append("Order", "django", type, {})
            raise Failed
    except Failed:
        pass


failing("RolledBack")
with transaction.atomic():
    failing("Undone")
    append("Order", "django", "OrderPaid", {})
try:
    append("Order", "django", "NoTransaction", {})
except RuntimeError:
    pass
else:
    raise AssertionError("was not refused without a transaction")
