"""The site: what a page loads from elsewhere is noticed at the end of its build."""

import importlib.util
import re
import subprocess
import sys

import pytest
from offline import files_that_load, loaded_from_elsewhere
from write_examples import ROOT


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.site/tex.js"></script>',
        '<link rel="preload stylesheet" href="//fonts.site/a.css">',
        '<link href="HTTP://site/a.png" rel="icon"/>',
        '<p><img alt="" src="http://site/badge.svg"></p>',
        "<style>@import 'https://site/a.css';</style>",
        '<p style="background: url(https://site/a.png)">',
    ],
)
def test_what_a_page_loads_from_elsewhere_is_noticed(text):
    assert len(loaded_from_elsewhere(text, ".html")) == 1


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('<a href="https://site">a link</a><script src="_static/tex-svg.js"></script>', ".html"),
        ('<link rel="canonical" href="https://site/page"><img src="a.png">', ".html"),
        ("@font-face { src: url(fonts/a.woff2); } /* https://site */", ".css"),
    ],
)
def test_links_and_files_of_the_site_are_right(text, suffix):
    assert loaded_from_elsewhere(text, suffix) == []


def test_style_sheets_are_searched():
    assert loaded_from_elsewhere("src: url('https://site/a.woff2')", ".css")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("furo") is None, reason='needs the extra "docs"')
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    """With its formulas, which MathJax draws."""
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", ROOT / "docs", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(files_that_load(tmp_path)) == []
    page = (tmp_path / "certificates.html").read_text(encoding="utf-8")
    assert 'src="_static/tex-svg.js' in page
    assert (tmp_path / "_static" / "tex-svg.js").stat().st_size > 1_000_000
    for path in tmp_path.glob("*.html"):
        for picture in re.findall(r'<img[^>]* src="([^"]+)"', path.read_text(encoding="utf-8")):
            assert (path.parent / picture).is_file(), f"{path.name} shows {picture}"
    gallery = (tmp_path / "gallery.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="(\w+).html#([\w-]+)"><img', gallery)
    assert len(links) > 30
    for page, anchor in links:
        assert f'id="{anchor}"' in (tmp_path / f"{page}.html").read_text(encoding="utf-8"), anchor


@pytest.mark.parametrize("page", ["likelihoods", "regularizers", "cases"])
def test_thumbnails_are_those_of_all_sections_with_a_picture(page):
    words = pytest.importorskip("words", reason='needs the extra "docs"')
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    thumbnails = dict(words.thumbnails_of(text))
    assert len(thumbnails) >= 10
    assert len(set(thumbnails.values())) == len(thumbnails)
    assert text.count("   :filename-prefix: ") + text.count("](cases/") == len(thumbnails)
