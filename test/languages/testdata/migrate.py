"""Applies migrations: tool, URL of SQLAlchemy and file, any number of times. Each is applied, reverted and applied again."""

import os
import shutil
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


def alembic(url, file):
    folder = os.path.join(os.path.dirname(file), "scripts")
    config = Config(os.path.join(os.path.dirname(file), "alembic.ini"))
    command.init(config, folder)
    config.set_main_option("script_location", folder)
    config.set_main_option("sqlalchemy.url", url)
    shutil.copy(file, os.path.join(folder, "versions"))
    command.upgrade(config, "head")
    command.downgrade(config, "base")
    command.upgrade(config, "head")
    with open(file + ".sql", "w") as out:  # what an administrator would run
        config.output_buffer = out
        command.upgrade(config, "head", sql=True)


def django_migrations(urls_and_files):
    databases, apps = {}, []
    for i, (url, file) in enumerate(urls_and_files):
        apps.append(f"app{i}")
        package = os.path.join(os.path.dirname(file), apps[i], "migrations")
        os.makedirs(package)
        for folder in (os.path.dirname(package), package):
            open(os.path.join(folder, "__init__.py"), "w").close()
        shutil.copy(file, package)
        sys.path.insert(0, os.path.dirname(file))
        url = make_url(url)
        engine = "django.db.backends." + ("postgresql" if url.drivername.startswith("postgresql") else "mysql")
        databases[apps[i]] = {"ENGINE": engine, "HOST": url.host, "PORT": url.port, "NAME": url.database, "USER": url.username}
    settings.configure(DATABASES={"default": {}} | databases, INSTALLED_APPS=apps, USE_TZ=True)
    django.setup()
    for app in apps:
        for target in ([], ["zero"], []):
            call_command("migrate", app, *target, database=app, verbosity=0)


arguments = list(zip(*[iter(sys.argv[1:])] * 3))
for tool, url, file in arguments:
    if tool == "alembic":
        alembic(url, file)
django_migrations([(url, file) for tool, url, file in arguments if tool == "django"])
