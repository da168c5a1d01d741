"""Applies the plain SQL as docs/other-languages.md says: tool, URL of SQLAlchemy and file, any number of times."""

import os
import sys

import django
import pymysql
from alembic import command
from alembic.config import Config
from django.conf import settings
from django.core.management import call_command
from sqlalchemy import make_url

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for that of mysqlclient

REVISION = """
from alembic import op

revision, down_revision = "1", None


def upgrade():
    sql = open("{file}").read()
    {upgrade}
"""
MIGRATION = """
from django.db import migrations


class Migration(migrations.Migration):
    operations = [migrations.RunSQL(open("{file}").read())]
"""


def alembic(url, file):
    folder = os.path.join(os.path.dirname(file), "scripts")
    config = Config(os.path.join(os.path.dirname(file), "alembic.ini"))
    command.init(config, folder)
    config.set_main_option("script_location", folder)
    config.set_main_option("sqlalchemy.url", url)
    whole = "op.get_bind().execution_options(no_parameters=True).exec_driver_sql(sql)"
    each = 'for s in sql.split(";\\n")[:-1]: op.get_bind().execution_options(no_parameters=True).exec_driver_sql(s)'
    with open(os.path.join(folder, "versions", "1_outbox.py"), "w") as out:
        out.write(REVISION.format(file=file, upgrade=whole if url.startswith("postgresql") else each))
    command.upgrade(config, "head")


def django_migrations(urls_and_files):
    databases, apps = {}, []
    for i, (url, file) in enumerate(urls_and_files):
        apps.append(f"app{i}")
        package = os.path.join(os.path.dirname(file), apps[i], "migrations")
        os.makedirs(package)
        for folder in (os.path.dirname(package), package):
            open(os.path.join(folder, "__init__.py"), "w").close()
        with open(os.path.join(package, "0001_outbox.py"), "w") as out:
            out.write(MIGRATION.format(file=file))
        sys.path.insert(0, os.path.dirname(file))
        url = make_url(url)
        engine = "django.db.backends." + ("postgresql" if url.drivername.startswith("postgresql") else "mysql")
        databases[apps[i]] = {"ENGINE": engine, "HOST": url.host, "PORT": url.port, "NAME": url.database, "USER": url.username}
    settings.configure(DATABASES={"default": {}} | databases, INSTALLED_APPS=apps, USE_TZ=True)
    django.setup()
    for app in apps:
        call_command("migrate", app, database=app, verbosity=0)


arguments = list(zip(*[iter(sys.argv[1:])] * 3))
for tool, url, file in arguments:
    if tool == "alembic":
        alembic(url, file)
django_migrations([(url, file) for tool, url, file in arguments if tool == "django"])
