"""The site is read without a network: no page loads anything from another site.

The check runs at the end of each build.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# Attributes whose files a browser loads with the page; links that a reader follows are others.
LOADED = {
    **dict.fromkeys(("script", "img", "iframe", "source", "embed", "audio", "video"), "src"),
    "object": "data",
}
RELATIONS = {"stylesheet", "preload", "modulepreload", "icon", "manifest", "preconnect"}
ELSEWHERE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
IN_CSS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


class Loads(HTMLParser):
    """What a page loads from other sites."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of one element."""
        values = {name: value or "" for name, value in attrs}
        url = values.get(LOADED.get(tag, ""), "")
        if tag == "link" and RELATIONS & set(values.get("rel", "").lower().split()):
            url = values.get("href", "")
        if ELSEWHERE.match(url):
            self.urls.append(url)
        self.urls += IN_CSS.findall(values.get("style", ""))


def loaded_from_elsewhere(text: str, suffix: str) -> list[str]:
    """The addresses on other sites from which a page or a style sheet loads something."""
    if suffix == ".css":
        return IN_CSS.findall(text)
    parser = Loads()
    parser.feed(text)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL | re.IGNORECASE)
    return [*parser.urls, *IN_CSS.findall("\n".join(styles))]


def files_that_load(folder: Path) -> Iterator[tuple[Path, str]]:
    """Pages and style sheets of a built site, each with an address that it loads."""
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        for url in loaded_from_elsewhere(path.read_text(encoding="utf-8"), path.suffix):
            yield path, url


def check(app: Any, exception: Exception | None) -> None:
    """Refuse a site that needs a network."""
    from sphinx.errors import ExtensionError

    if exception is not None or app.builder.format != "html":
        return
    for path, url in files_that_load(Path(app.outdir)):
        raise ExtensionError(f"{path.relative_to(app.outdir)} loads {url}; ship it with the site")


def setup(app: Any) -> dict[str, bool]:
    """Make the check known to Sphinx."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
