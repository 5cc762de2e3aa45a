"""Answers in notebooks: HTML in which names are text, and models as LaTeX that reads."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.contracts.showing import one_line
from mcframe.selection import RelativeError

NASTY = ["<script>alert(1)</script>", "$x$", r"\alpha_1 {", "two\nlines", "a&b_c^d~e%#", '"q"']
TAGS = {"div", "style", "strong", "table", "tr", "th", "td", "p", "details", "summary", "pre"}
TAGS |= {"i", "sub"}


class Reader(HTMLParser):
    """The texts of a document whose tags are closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.attributes = [], [], []
        self.feed(page)
        assert not self.open
        self.text = "".join(self.texts)

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        self.open.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.texts.append(data)


def read(answer):
    """The text of an answer's HTML, which keeps mathematics and its own rules to itself."""
    page = answer._repr_html_()
    reader = Reader(page)
    assert page.startswith('<div class="mcframe tex2jax_ignore mathjax_ignore">')
    assert {name for name, _ in reader.attributes} == {"class"}
    return reader.text


def model_of(name):
    blocks = [mc.Block(name, mc.Gaussian(), bias=True, reduce="mean", standardize=True)]
    terms = [mc.NuclearNorm(0.5), mc.Box(-1.0, 1.0, block=name)]
    terms += [mc.Calibration(name, np.ones((1, 3)), [0.0, np.nan])]
    return mc.Model([*blocks, mc.Block("other", mc.Bernoulli())], terms)


@pytest.mark.parametrize("name", NASTY)
def test_names_of_blocks_are_text_in_html(name):
    text = read(model_of(name))
    assert f"Σ(i,j)∈{one_line(name)}" in text
    assert f"number of observed entries of {one_line(name)}" in text
    assert f"zij of {one_line(name)}" in text
    assert "NuclearNorm" in text


@pytest.mark.parametrize("name", NASTY)
def test_names_of_blocks_are_text_in_latex(name):
    latex = model_of(name)._repr_latex_()
    assert latex.startswith(r"$\begin{aligned} & ")
    body = latex[1:-1]
    assert not re.search(r"(?<!\\)[$%#]", body)
    assert "\n" not in latex
    inside = re.sub(r"\\[{}]", "", latex)
    assert inside.count("{") == inside.count("}")
    # Every command is one of mathematics, and no part of a name.
    commands = set(re.findall(r"\\([A-Za-z]+)", latex))
    assert commands <= {
        *("begin", "end", "text", "sum", "in", "le", "Vert", "log", "exp", "times", "circ", "ell"),
        *("backslash", "wedge", "sim"),
    }
    # In text there is nothing that needs an escape.
    for text in re.findall(r"\\text\{([^{}]*)\}", latex):
        assert not re.search(r"[\\^~$&#%_]", text)


def test_a_plain_name_is_written_as_before():
    latex = model_of("x1")._repr_latex_()
    assert r"\frac" not in latex
    assert r"\sum_{(i,j)\in\text{x1}}" in latex
    assert r"N_{\text{x1}} = \text{number of observed entries of }\text{x1}" in latex


def test_the_formula_in_html_has_subscripts():
    page = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])._repr_html_()
    assert "(<i>z</i><sub><i>ij</i></sub> − <i>x</i><sub><i>ij</i></sub>)²/2" in page
    assert "2 ‖<i>Z</i>‖<sub>*</sub>" in page
    assert r"\begin{aligned}" in page


def test_answers_are_html_with_what_they_print():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 1)) @ np.ones((1, len(NASTY))), columns=NASTY)
    frame = (frame + 0.1 * rng.normal(size=frame.shape)).mask(rng.random(frame.shape) < 0.2)
    frame[NASTY[0]] = np.nan  # a column that is noted
    model = mc.Model([mc.Block(NASTY[0], mc.Gaussian(variance=0.1))], [mc.NuclearNorm(1.0)])
    data = {NASTY[0]: frame}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what is not observed, and of the edge
        fit = mc.fit(model, data)
        posterior = mc.posterior(model, data, max_iter=20)
        path = mc.path(model, data, weights=[4.0, 2.0])
        chosen = mc.cross_validate(
            model, data, criterion=RelativeError(NASTY[0]), weights=[9.0, 1.0, 0.1], cv=2
        )
    for answer in (fit, posterior):
        text = read(answer)
        assert f"{type(answer).__name__}: {answer.status}" in text
        assert all(value in text for value in answer._facts().values())
        assert answer.message in text
        assert "note: " in text
        assert NASTY[0] in text
    text = read(path)
    assert text.startswith("Path: 2 weights of NuclearNormweight")
    assert f"{path[1].objective:.9g}" in text
    text = read(chosen)
    assert f"{chosen.means[chosen.best]:.4g}" in text
    assert chosen.remarks()[0] in text
    assert chosen._repr_html_().count("mc-chosen") == 2  # the rule, and the best cell
    with pytest.warns(UserWarning, match="not one of its values is observed"):
        completed = mc.complete(frame)
    text = read(completed)
    assert all(one_line(name) in text for name in NASTY)
    assert completed._summary()[0] in text


@pytest.fixture(scope="module")
def tabular():
    """The answers whose text is a table, over names with markup."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20, len(NASTY))), columns=NASTY)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    declared = mc.declare(frame)
    estimates = [pd.Series(rng.normal(size=len(NASTY)), index=NASTY) for _ in range(3)]
    variances = [pd.Series(np.ones(len(NASTY)), index=NASTY)] * 3
    return {
        "Declared": declared,
        "Explanation": mc.explain(*declared),
        "Verification": mc.verify(*declared),
        "Pooled": mc.pool(estimates, variances),
    }


@pytest.mark.parametrize("kind", ["Declared", "Explanation", "Verification", "Pooled"])
def test_tables_are_html_with_all_words_that_they_print(tabular, kind):
    answer = tabular[kind]
    assert type(answer).__name__ == kind
    text, page = " ".join(read(answer).split()), answer._repr_html_()
    assert text.startswith(kind)
    for word in re.sub(r"<- auto", "", repr(answer)).split():
        assert word in text or one_line(word) in text, word
    assert (
        page.count("<tr>")
        == {"Declared": 7, "Explanation": 8 + 7, "Verification": 3, "Pooled": 7}[kind]
    )


def test_the_chosen_backend_is_bold_and_estimates_without_names_have_no_column_for_them(tabular):
    page = tabular["Explanation"]._repr_html_()
    assert f'<td class="mc-chosen">{tabular["Explanation"].chosen}</td>' in page
    pooled = mc.pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04])
    assert pooled._repr_html_().count("<th") == 6
    assert read(pooled).startswith("Pooled: 3 completed tablesestimate")


def test_long_tables_are_cut_and_numbers_stand_right():
    from mcframe.contracts.showing import table_as_html

    page = table_as_html(["name", "number"], [("x" * 300, -1.5)] * 99 + [("", "")])
    assert page.count("<tr>") == 1 + 60
    assert "and 40 more rows" in page
    assert '<th class="mc-number">number</th>' in page
    assert '<td class="mc-number">-1.5</td>' in page
    assert "<th>name</th>" in page
    assert "x" * 119 + "…" in page
    assert "x" * 120 not in page


def test_names_on_one_line_can_be_printed_and_encoded():
    assert one_line("a\n\tb\x00c\ud800") == "a b�c�"
    one_line("\ud800").encode()
