"""The ledger of times: its page is what the file says, and a rise is seen."""

import json
import os
import subprocess
import sys

import pytest

from .test_benchmarks import FOLDER, script  # noqa: F401
from .test_docs import ROOT


@pytest.fixture
def ledger(script):  # noqa: F811
    return script("ledger")


def line(commit, day, quiet=True, **items):
    """A line of a ledger with a ratio, or seconds where that is negative, for each item."""
    made = {}
    for name, ratio in items.items():
        peers = {"peer": {"seconds": 1.0, "ratio": ratio}} if ratio > 0 else {}
        made[name] = {"seconds": abs(ratio), "cpu": abs(ratio), "peers": peers}
    committed = f"2026-11-{day:02d}T00:00:00+00:00"
    about = {"processor": "a processor", "quiet": quiet}
    return {"commit": commit, "committed": committed, "items": made, **about}


def test_the_page_is_written_from_the_file(ledger):
    lines = ledger.read(ledger.FILE)
    page = ledger.DOCUMENT.read_text(encoding="utf-8")
    assert "\n".join(ledger.page_lines(lines)) in page
    assert "\n".join(ledger.aim_lines(lines)) in page
    assert "\n".join(ledger.scaling_lines(lines)) in ledger.SCALING.read_text(encoding="utf-8")
    assert ledger.DOCUMENT.with_name("ledger.png").exists()
    assert all(set(one["items"]) <= set(ledger.ITEMS) for one in lines)


def test_a_ratio_that_rises_by_more_than_a_fifth_is_named(ledger, tmp_path, capsys):
    path = tmp_path / "ledger.jsonl"
    lines = [
        line("old", 1, p1=1.0, p3=2.0, disk=-30.0),
        line("new", 2, p1=1.1, p3=8.0, disk=-40.0),
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert not ledger.compare(path, [])
    risen = [row.split()[0] for row in capsys.readouterr().out.splitlines() if "explain" in row]
    assert risen == ["p3", "disk"]
    assert ledger.compare(path, ["new", "old"])
    with pytest.raises(SystemExit, match="old, new"):
        ledger.compare(path, ["other", "new"])


def test_lines_of_a_commit_are_joined_and_the_latest_counts(ledger):
    lines = [line("b", 2, p1=3.0), line("a", 1, p1=2.0), line("a", 1, quiet=False, p1=4.0, p2=5.0)]
    commits = ledger.by_commit(lines)
    assert list(commits) == ["a", "b"]
    assert {name: n["seconds"] for name, n in commits["a"]["items"].items()} == {
        "p1": 4.0,
        "p2": 5.0,
    }
    table = "\n".join(ledger.page_lines(lines))
    assert "| p1 | peer | 4* | 3 |" in table
    assert "| p2 | peer | 5* |  |" in table


def test_aims_have_the_latest_numbers_whether_met_or_missed(ledger):
    lines = [line("old", 1, demo=-19.0), line("new", 2, p7=-7.0), line("new", 3, demo=-21.0)]
    lines[1]["items"]["p7"]["peers"] = {"peer": {"seconds": 2.0}}
    table = "\n".join(ledger.aim_lines(lines))
    assert "| demo | seconds | 20 | 21 | no | `new` |" in table
    assert "| p7 | seconds | 3 | 7 | no | `new` |" in table
    assert "| import | seconds | 0.5 | not measured |  |  |" in table
    assert "| demo | seconds | 20 | 19 | yes | `old` |" in "\n".join(ledger.aim_lines(lines[:1]))
    beside = ledger.Aim("p7", "seconds", 3.0, "peer")
    assert beside.reached(lines[1]["items"]["p7"]) == 3.5
    assert beside.reached({"seconds": 1.0, "peers": {}}) is None
    assert {aim.item for aim in ledger.AIMS} <= set(ledger.ITEMS)


def test_the_picture_draws_items_with_two_commits(ledger, tmp_path):
    pytest.importorskip("matplotlib")
    lines = [line("old", 1, p1=1.0, p3=2.0), line("new", 2, p1=1.1)]
    ledger.draw(lines, tmp_path / "ledger.png")
    assert (tmp_path / "ledger.png").stat().st_size > 5_000


@pytest.mark.slow(seconds=4)
def test_the_command_adds_a_line(tmp_path):
    """A sparse fit on tiny data, beside a peer that need not be installed."""
    path = tmp_path / "ledger.jsonl"
    command = [sys.executable, FOLDER / "ledger.py", "--quick", "--items", "p3", "--file", path]
    run = subprocess.run(
        [*command, "--data", tmp_path / "data", "--limit", "300"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ,
    )
    assert run.returncode == 0, run.stderr
    (made,) = map(json.loads, path.read_text().splitlines())
    numbers = made["items"]["p3"]
    assert numbers["status"] == "certified"
    assert numbers["gap"] <= 1e-4
    assert min(numbers[key] for key in ("seconds", "cpu", "peak_mb", "iterations", "products")) > 0
    assert not made["quiet"]
    (peer,) = numbers["peers"].values()
    assert "failed" in peer or peer["ratio"] == numbers["seconds"] / peer["seconds"]
    assert len(made["commit"].rstrip("+")) == 8
