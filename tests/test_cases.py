"""The worked cases: each runs, prints what its page shows, and draws its picture."""

import importlib

import pytest
from write_examples import ROOT, difference, examples_of, run_script

CASES, DOCS = ROOT / "examples" / "cases", ROOT / "docs"
NAMES = sorted(path.stem for path in CASES.glob("*.py") if path.stem != "common")
QUICK = ("known_totals",)
LARGEST_PICTURE = 60_000  # bytes
SHOWN = {
    example.code.strip(): example
    for example in examples_of((DOCS / "cases.md").read_text(encoding="utf-8"), ("sh",))
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in NAMES]
)
def test_a_case_prints_what_the_page_shows(name, tmp_path, request):
    """Its own assertion holds, nothing is warned of, and its picture is a small one."""
    script = CASES / f"{name}.py"
    if "data_file(" in script.read_text(encoding="utf-8"):
        request.getfixturevalue("data_folder")  # skips without it
    example = SHOWN[f"python examples/cases/{name}.py"]
    printed = run_script(script, tmp_path)
    assert difference(printed, example.shown, example.tolerance) is None, printed
    assert (tmp_path / f"{name}.png").stat().st_size < LARGEST_PICTURE


def test_every_case_is_on_the_page_with_a_small_picture():
    assert len(NAMES) == 10
    assert {f"python examples/cases/{name}.py" for name in NAMES} <= set(SHOWN)
    page = (DOCS / "cases.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"](cases/{name}.png)" in page
        assert (DOCS / "cases" / f"{name}.png").stat().st_size < LARGEST_PICTURE


def test_a_case_says_where_it_looks_for_data(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(CASES)
    common = importlib.import_module("common")
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    with pytest.raises(SystemExit, match=r"needs the file emotions\.npz.*Set .* MCFRAME_DATA"):
        common.data_file("emotions.npz")
    monkeypatch.setenv("MCFRAME_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"MCFRAME_DATA=.* does not hold it"):
        common.data_file("emotions.npz")
