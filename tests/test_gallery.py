"""The gallery: each word has a section with a formula and a picture, and each picture is drawn."""

import re
import textwrap

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import mcframe as mc

from .test_docs import PAGES, ROOT

PICTURE = re.compile(
    r"^\.\. plot::\n   :filename-prefix: \w+\n   :alt: [^\n]+\n\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
DRAWN = [(path, code) for path in PAGES for code in PICTURE.findall(path.read_text("utf-8"))]
IDS = [f"{path.stem}-{k}" for k, (path, _) in enumerate(DRAWN)]
SECTIONS = {
    section.partition("\n")[0]: section
    for page in ("likelihoods", "regularizers")
    for section in (ROOT / "docs" / f"{page}.md").read_text("utf-8").split("\n## ")[1:]
}


@pytest.fixture
def agg():
    """Figures are drawn into memory, and closed."""
    before = mpl.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


@pytest.mark.parametrize(("path", "code"), DRAWN, ids=IDS)
def test_pictures_are_drawn(path, code, agg):
    """As the build of the site draws them; a warning is an error."""
    exec(textwrap.dedent(code), {"np": np, "mc": mc})
    figure = plt.gcf()
    figure.canvas.draw()
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize(
    "word",
    [
        *(mc.likelihoods.__all__ + mc.risks.__all__),
        *(mc.regularizers.__all__ + mc.constraints.__all__ + ["Calibration"]),
    ],
)
def test_a_word_has_a_formula_a_picture_and_a_use(word):
    section = SECTIONS[word]
    assert section.count("$$") >= 2 or "$\\ell" in section
    assert f"mc.{word}(" in "".join(PICTURE.findall(section))
    assert re.search(r"^\*\*Use it (for|if|in addition to)\*\* ", section, re.MULTILINE)
