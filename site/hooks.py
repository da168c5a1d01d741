"""Makes the pages, which are written for GitHub, a site: MkDocs calls these functions while it builds."""

import html as markup
import json
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/cdc-relay/cdc-relay/blob/main/"


def on_config(config):
    """Pages for maintainers need no place in mkdocs.yml."""
    pages = sorted((ROOT / "docs/maintainers").glob("*.md"))
    config.nav.append({"Maintainers": [f"maintainers/{page.name}" for page in pages]})
    return config


def on_files(files, config):
    """The README is the first page."""
    text = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=re.sub(r'(\]\(|src(?:set)?=")docs/', r"\1", text)))
    files.append(File.generated(config, "paste.js", content=(ROOT / "site/paste.js").read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri.startswith("maintainers/"):
        page.meta["search"] = {"boost": 0.3}
    markdown = re.sub(r"(?m)^( *```mysql) \w+$", r"\1", markdown)  # a mark for tests
    return indented(outside(markdown, page.file.src_uri))


def outside(markdown, page):
    """Links to files of the repository that are no pages lead to GitHub. TestLinksResolve verifies that the files exist."""
    folder = ROOT if page == "index.md" else (ROOT / "docs" / page).parent

    def replaced(match):
        target = (folder / match[1]).resolve()
        if (ROOT / "docs") in target.parents or not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        return f"]({SOURCE}{target.relative_to(ROOT)}{match[2] or ''})"

    return re.sub(r"\]\(([\w@./-]+)(#[\w-]+)?\)", replaced, markdown)


MARKER = re.compile(r"( *)([-*]|\d+\.) +")
FENCE = re.compile(r" *```")


def indented(markdown):
    """Python-Markdown wants four spaces below an item of a list, GitHub wants as many as the item's text has before it."""
    lines, offsets, fenced, before = [], [], False, ""
    for line in markdown.split("\n"):
        spaces = len(line) - len(line.lstrip(" "))
        if line.strip() and not fenced:
            while offsets and spaces < offsets[-1]:
                offsets.pop()
        offset = offsets[-1] if offsets else 0
        marker = None if fenced else MARKER.match(line)
        if marker and not offsets and before.strip() and not MARKER.match(before) and not before.startswith(" "):
            lines.append("")  # GitHub lets a list follow a paragraph at once
        lines.append(" " * 4 * len(offsets) + line[offset:] if line.strip() else "")
        if marker:
            offsets.append(marker.end())
        if FENCE.match(line):
            fenced = not fenced
        before = line
    return "\n".join(lines)


EMPTY_HEAD = re.compile(r"<thead>\s*<tr>\s*(?:<th[^>]*></th>\s*)+</tr>\s*</thead>")


def on_page_content(html, page, config, files):
    """GitHub hides an empty head of a table, and the backslash before a bar within code of a table."""
    html = EMPTY_HEAD.sub("", html)
    if page.file.src_uri in ("troubleshooting.md", "security.md"):
        html = MESSAGE.sub(lambda row: found(page.url, row), html)
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace(r"\|", "|"), html, flags=re.DOTALL)


MESSAGE = re.compile(r"<tr>\s*<td>(<code>.*?)</td>(.*?)</tr>", re.DOTALL)
MESSAGES = []  # what the search finds beside sections: rows that begin with a message of the relay


def found(page, row):
    """Gives a row with a message a place, which a search for the message leads to."""
    MESSAGES.append({
        "location": f"{page}#message-{len(MESSAGES)}",
        "title": markup.escape(markup.unescape(re.sub("<[^>]+>", "", row[1]))),
        "text": re.sub("<[^>]+>", " ", row[2]),
    })
    return f'<tr id="message-{len(MESSAGES) - 1}"><td>{row[1]}</td>{row[2]}</tr>'


REQUEST = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc(?:set)?="?(?:https?:)?//|<link\b[^>]*\bhref="?(?:https?:)?//|url\((?:https?:)?//')


# Pages that have moved: the page in their place, and the places of their sections on other pages.
MOVED = {
    "operations": ("monitoring", {
        "one-process-for-each-database": "install#high-availability",
        "readiness": "monitoring#health",
        "the-page": "monitoring#the-page",
        "when-it-stops": "recovery",
        "the-position-was-moved-while-it-ran": "recovery#move-the-position",
        "another-relay-has-taken-over-the-transactional-id": "recovery#another-relay-has-taken-over",
        "kafka-has-no-transaction-coordinator": "recovery",
        "an-event-cannot-be-published": "recovery#skip-an-event",
        "the-slot-is-ahead-of-the-checkpoint": "recovery#the-slot-is-ahead-of-the-checkpoint",
        "the-publication-was-altered": "recovery#the-publication-was-altered",
        "a-required-column-is-gone": "recovery#a-column-was-renamed-or-dropped",
        "the-checkpoint-is-lost-mysql-and-mariadb": "recovery#the-checkpoint-is-lost",
        "the-binlog-was-purged": "recovery#the-binlog-was-purged",
        "the-server-is-behind-or-has-lost-history": "recovery#the-database-was-restored-or-failed-over",
        "a-transaction-cannot-be-read": "recovery#a-transaction-cannot-be-read",
        "the-server-cannot-send-its-binlog": "recovery",
        "mysql-gave-transactions-no-gtids": "recovery",
        "another-replica-has-our-server-id": "recovery",
        "the-slot-is-gone-or-lost": "recovery#the-replication-slot-is-lost",
        "the-database-was-restored-cloned-or-failed-over-with-loss": "recovery#the-database-was-restored-or-failed-over",
        "dead-letters": "dead-letters",
        "find-an-event": "replay#find-an-event",
        "repair": "recovery#publish-rows-that-were-skipped",
        "replay": "replay",
        "the-tables-partitions": "retention#daily-partitions",
        "old-rows-of-tables-without-partitions": "retention#tables-without-partitions",
        "marking-rows": "migrate-from-polling",
        "rights": "security#rights",
    }),
    "best-practices": ("checklist", {}),
    "sizing": ("checklist", {}),
    "databases": ("managed-databases", {}),
    "mariadb": ("mysql", {}),
    "deduplication": ("consumer", {}),
    "orms": ("go", {}),
    "migrate": ("migrate-debezium", {"from-a-polling-publisher": "migrate-from-polling"}),
    "maintainers/performance-history": ("performance", {}),
    "maintainers/visibility-binlog": ("visibility", {}),
}

REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<script>location.replace({places}[location.hash.slice(1)] || "{page}.html" + location.hash)</script>
<noscript><meta http-equiv="refresh" content="0; url={page}.html"></noscript>
<a href="{page}.html">This page has moved.</a>
"""


def redirect(site):
    for old, (page, places) in MOVED.items():
        html = {}
        for anchor, place in {"": page, **places}.items():
            target, _, section = place.partition("#")
            path = (site / old).parent / f"{target}.html"
            if not path.exists() or section and f'id="{section}"' not in path.read_text():
                raise PluginError(f"{old}#{anchor} has moved to {place}, which is not there")
            html[anchor] = f"{target}.html" + (f"#{section}" if section else "")
        del html[""]
        (site / f"{old}.html").write_text(REDIRECT.format(places=json.dumps(html), page=page))


def on_post_build(config):
    """A page that is opened must request nothing from another host."""
    redirect(Path(config["site_dir"]))
    index = Path(config["site_dir"]) / "search/search_index.json"
    content = json.loads(index.read_text())
    if len(MESSAGES) < 30:
        raise PluginError(f"only {len(MESSAGES)} messages of the relay are found by the search")
    content["docs"] += MESSAGES
    index.write_text(json.dumps(content))
    for path in [*Path(config["site_dir"]).rglob("*.html"), *Path(config["site_dir"]).rglob("*.css")]:
        if match := REQUEST.search(path.read_text()):
            raise PluginError(f"{path} requests something from another host: {match[0]}")
