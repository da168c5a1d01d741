"""Makes the pages, which are written for GitHub, a site: MkDocs calls these functions while it builds."""

import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/cdc-relay/cdc-relay/blob/main/"


def on_config(config):
    """Pages for maintainers need no place in mkdocs.yml."""
    pages = sorted((ROOT / "docs/maintainers").glob("*.md"))
    config.nav.append({"For maintainers": [f"maintainers/{page.name}" for page in pages]})
    return config


def on_files(files, config):
    """The README is the first page."""
    text = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=re.sub(r'(\]\(|src(?:set)?=")docs/', r"\1", text)))
    return files


def on_page_markdown(markdown, page, config, files):
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
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace(r"\|", "|"), html, flags=re.DOTALL)


REQUEST = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc(?:set)?="?(?:https?:)?//|<link\b[^>]*\bhref="?(?:https?:)?//|url\((?:https?:)?//')


def on_post_build(config):
    """A page that is opened must request nothing from another host."""
    for path in [*Path(config["site_dir"]).rglob("*.html"), *Path(config["site_dir"]).rglob("*.css")]:
        if match := REQUEST.search(path.read_text()):
            raise PluginError(f"{path} requests something from another host: {match[0]}")
