"""Bars in terminals and notebooks, lines elsewhere, logs; and the answers they must not change."""

import itertools
import logging
import multiprocessing
import os
import re
import sys
import threading
import time
import types
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.runtime import progress
from mcframe.runtime.progress import current, duration, stage

MODEL = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(2.0)])


def table():
    x = np.random.default_rng(0).standard_normal((30, 8))
    x[::3, 1] = np.nan
    return {"x": x}


@pytest.fixture
def quick(monkeypatch):
    """Bars that appear after a tenth of a second."""
    monkeypatch.setattr(progress, "DELAY", 0.1)
    monkeypatch.setattr(progress, "REFRESH", 0.02)


@contextmanager
def terminal(monkeypatch, columns=80):
    """A terminal as standard error; afterwards the list has what was written to it."""
    pty = pytest.importorskip("pty")  # not on Windows
    mine, its = pty.openpty()
    pieces, written = [], []

    def read():
        with suppress(OSError):  # closed at the other end
            while True:
                pieces.append(os.read(mine, 4096))

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(its, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        yield written
    reader.join()
    os.close(mine)
    written.append(b"".join(pieces).decode())


def pictures(written):
    """The lines of a terminal without colours and movements of the cursor."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written[0])
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (3599.9, "1 h 0 min"),
        (7320, "2 h 2 min"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.fixture
def clock(monkeypatch):
    """Seconds by hand, in a list of one number."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_come_now_and_then(capsys, clock):
    with stage("x", shown=True) as here:
        for done, clock[0] in enumerate((20.0, 30.0, 60.0, 70.0, 80.0), 1):
            here.count(done, 5, "trials")
    assert capsys.readouterr().err.splitlines() == [
        "x: 1 of 5 trials after 20 s, about 1 min 20 s to go",
        "x: 3 of 5 trials after 1 min 0 s, about 1 min 0 s to go",
        "x: 5 of 5 trials after 1 min 20 s",
    ]


def test_output_that_is_no_terminal_has_a_line_every_half_minute(capsys, clock):
    """Of the innermost stage that has something to say, and none of what ends before."""
    with stage("short") as here:
        clock[0] = 20.0
        here.count(1, 2, "trials")
    assert capsys.readouterr().err == ""
    clock[0] = 0.0
    with stage("outer") as outer:
        for done in range(1, 11):
            with stage("inner") as inner:
                for step in range(1, 4):
                    clock[0] += 5.0
                    inner.count(step, 3, "steps")
            outer.count(done, 10, "trials")
    assert capsys.readouterr().err.splitlines() == [
        "outer: 2 of 10 trials after 30 s, about 2 min 0 s to go",
        "outer: 4 of 10 trials after 1 min 0 s, about 1 min 30 s to go",
        "outer: 6 of 10 trials after 1 min 30 s, about 1 min 0 s to go",
        "outer: 8 of 10 trials after 2 min 0 s, about 30 s to go",
        "outer: 10 of 10 trials after 2 min 30 s",
    ]


@pytest.mark.parametrize("quiet", ["progress", "environment", "log", "process"])
def test_nothing_is_written_where_no_line_is_wanted(capsys, clock, monkeypatch, caplog, quiet):
    if quiet == "environment":
        monkeypatch.setenv(progress.VARIABLE, "0")
    if quiet == "log":
        caplog.set_level(logging.INFO, "mcframe")
    if quiet == "process":
        monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    with stage("x", shown=False if quiet == "progress" else None) as here:
        for clock[0] in (40.0, 80.0):
            here.report("on", 0.5)
    assert capsys.readouterr().err == ""


def test_a_rate_and_the_time_that_remains(clock):
    with stage("draws") as here:
        clock[0] = 4.0
        here.count(1, 5, "tables", rated=True)
        assert str(here) == "draws: 1 of 5 tables, 4.0 s each after 4.0 s, about 16 s to go"
        clock[0] = 5.0
        here.count(100, 500, "tables", rated=True)
        assert str(here).startswith("draws: 100 of 500 tables, 20 a second after 5.0 s")


def test_the_chosen_candidate_is_the_last_line(caplog):
    caplog.set_level(logging.INFO, "mcframe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        completed = mc.complete(mc_frame())
        chosen = mc.cross_validate(
            [MODEL, MODEL], table(), weights=mc.selection.Grid(count=3), cv=2
        )
        compared = mc.compare({"a": MODEL, "b": MODEL}, table(), cv=2, max_iter=3)
        mc.complete(mc_frame(), method="optimum")
    ends = [line for line in caplog.messages if " / " not in line]
    wanted = (
        f"complete: {completed.chosen}: chosen after",
        f"the best: model {chosen.best[0]} at weight {chosen.best_weight:.4g} after",
        f"the best: {compared.best} after",
        "has the least loss after",
    )
    for line, text in zip(ends, wanted, strict=True):
        assert text in line


def test_a_gap_is_measured_on_a_log_scale(clock):
    with stage("x") as here:
        for clock[0], gap in enumerate((np.inf, 1.0, 1e-1, 1e-2, 1e-3), 1):
            here.report("", here.fall(gap, 1e-6))
        assert here.share == pytest.approx(0.5)
        assert here.left == pytest.approx(5.0)
        here.report("", here.fall(1e-2, 1e-6))  # which never falls
        assert here.share == pytest.approx(0.5)
        here.report("", here.fall(1e-7, 1e-6))
        assert (here.share, here.left) == (1.0, None)


def test_a_small_share_of_the_way_is_no_rate(clock):
    """Steps of ten seconds that hardly rise at first: 11 minutes to go, and then it was over."""
    with stage("draws") as draws, stage("rows") as rows:
        for clock[0], rise in ((10.0, 1000.0), (20.0, 900.0), (30.0, 800.0)):
            rows.report("", rows.fall(rise, 1.0))
            assert rows.left is None
        clock[0] = 40.0
        rows.report("", rows.fall(10.0, 1.0))
        assert rows.left == pytest.approx(10.0, rel=0.1)
        draws.count(1, 5, "tables")
        assert draws.left == pytest.approx(160.0)


def test_what_the_first_of_many_steps_prepares_is_no_rate(clock):
    """The first of 200 sweeps compiles for four seconds; each of them takes a tenth of one."""
    with stage("x") as here:
        clock[0] = 4.0
        here.count(1, 200, "sweeps")
        assert here.left is None
        clock[0] = 4.1
        here.count(2, 200, "sweeps")
        assert here.left == pytest.approx(19.8)


def test_the_innermost_stage_is_told_and_inherits_what_is_shown(capsys):
    assert current() is progress.NOWHERE
    with stage("a", shown=False), stage("b") as inner:
        assert current() is inner
        assert (inner.title, inner.shown, inner.outer) == ("a / b", False, False)
    assert current() is progress.NOWHERE
    assert capsys.readouterr().err == ""


def test_redirected_output_has_no_bar_unless_it_is_asked_for(capsys, quick):
    with stage("x"):
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "")
    mc.fit(MODEL, table(), progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"fit: gap [\d.e-]+, rank \d after .+ s", said.err.splitlines()[-1])


def is_given_back(written):
    """Whether the last bar was erased, and the cursor is shown again."""
    hidden, back = written[0].rfind("\x1b[?25l"), written[0].rfind("\x1b[?25h")
    return 0 <= hidden < back and "\x1b[2K" in written[0][back - 40 :]


def test_a_terminal_has_a_bar_that_disappears(monkeypatch, quick):
    with terminal(monkeypatch) as written, stage("fit") as here:
        for k in range(20):
            here.report(f"gap 1e-{k}, rank 3", k / 20)
            time.sleep(0.03)
    shown = pictures(written)
    assert any("gap 1e-" in line and "to go" in line and "━" in line for line in shown)
    assert max(map(len, shown)) <= 80
    assert is_given_back(written)


def test_a_narrow_terminal_has_a_short_bar(monkeypatch, quick):
    with terminal(monkeypatch, 40) as written, stage("complete"), stage("posterior") as here:
        for k in range(20):
            here.report(f"evidence -12345.{k}, factors 12", k / 20)
            time.sleep(0.03)
    shown = pictures(written)
    assert any(line.rstrip().endswith("to go") for line in shown)
    assert max(map(len, shown)) <= 40


@pytest.mark.parametrize("quiet", ["progress", "callback", "environment", "log"])
def test_a_terminal_has_no_bar_where_none_is_wanted(monkeypatch, quick, caplog, quiet):
    if quiet == "environment":
        monkeypatch.setenv(progress.VARIABLE, "0")
    if quiet == "log":
        caplog.set_level(logging.INFO, "mcframe")
    with terminal(monkeypatch) as written:
        if quiet == "callback":
            mc.fit(MODEL, table(), tol=1e-9, callback=lambda record: time.sleep(0.1))
        with stage("x", shown=False if quiet == "progress" else None), stage("y"):
            time.sleep(0.0 if quiet == "callback" else 0.2)
    assert pictures(written) == []


def test_the_numbers_are_the_same_with_a_bar(monkeypatch, quick):
    def slowly(record):
        time.sleep(0.03)

    options = {"tol": 1e-9, "callback": slowly, "backend": "proximal"}
    with terminal(monkeypatch) as written:
        shown = mc.fit(MODEL, table(), progress=True, **options)
    plain = mc.fit(MODEL, table(), progress=False, **options)
    assert "rank" in written[0]
    assert shown.latent.left.tobytes() == plain.latent.left.tobytes()
    assert shown.latent.right.tobytes() == plain.latent.right.tobytes()
    assert (shown.objective, shown.bound) == (plain.objective, plain.bound)


def test_two_threads_share_the_terminal(monkeypatch, quick):
    def work(name):
        with stage(name) as here:
            for k in range(20):
                here.count(k, 20, "steps")
                time.sleep(0.03)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
    with terminal(monkeypatch) as written:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {"first", "second"} <= {line.split()[0] for line in pictures(written)}
    assert is_given_back(written)
    assert not progress.the_board(os.getpid()).stages


def test_a_stage_that_ends_while_its_bar_is_drawn(monkeypatch, quick):
    looks = itertools.cycle([8.0, None])  # the time that is left ends between two looks at it
    monkeypatch.setattr(progress.Progress, "left", property(lambda self: next(looks)))
    with terminal(monkeypatch) as written, stage("x") as here:
        here.report("on", 0.5)
        for _ in range(4):  # from either look on
            assert str(here).startswith("x: on after")
        time.sleep(0.3)
    assert is_given_back(written)


def test_a_terminal_that_is_closed_ends_no_computation(monkeypatch, quick):
    with stage("x") as here:
        with terminal(monkeypatch):
            time.sleep(0.5)
        here.report("on", 0.5)
        time.sleep(0.2)


def test_an_interruption_gives_the_terminal_back(monkeypatch, quick):
    def interrupted():
        with stage("x"):
            time.sleep(0.5)
            raise KeyboardInterrupt

    with terminal(monkeypatch) as written, pytest.raises(KeyboardInterrupt):
        interrupted()
    assert is_given_back(written)


def test_other_processes_have_no_bar(monkeypatch):
    with terminal(monkeypatch):
        assert progress.surface() == "terminal"
        monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
        assert progress.surface() == ""


def test_logs_have_lines(caplog, clock):
    caplog.set_level(logging.INFO, "mcframe")
    with stage("fit") as here:
        for clock[0] in (5.0, 12.0, 20.0, 45.0):
            here.report("gap 1e-3", 0.5)
            with stage("inner"):
                pass
    assert [record.getMessage() for record in caplog.records] == [
        "fit: gap 1e-3 after 12 s",
        "fit: gap 1e-3 after 45 s",
        "fit: gap 1e-3 after 45 s",
    ]
    assert {record.name for record in caplog.records} == {"mcframe"}


def test_every_verb_reports(caplog):
    caplog.set_level(logging.INFO, "mcframe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mc.fit(MODEL, table())
        mc.path(MODEL, table(), weights=mc.selection.Grid(count=3))
        mc.posterior(MODEL, table(), max_iter=3).conformalize()
        mc.cross_validate(
            MODEL,
            table(),
            criterion=mc.selection.HeldOutLoss(),
            weights=mc.selection.Grid(count=3),
            cv=2,
        )
        mc.complete(mc_frame()).draws(2)
    said = [record.getMessage() for record in caplog.records]
    ends = list({line.split(":")[0].split(" after")[0]: line for line in said}.values())
    ends = [line for line in ends if " / " not in line]  # where loops are compiled first
    wanted = ("fit: gap", "path: 3 of 3 weights", "posterior: evidence", "conformalize")
    wanted = (*wanted, "cross_validate: 1 of 1 models", "complete: ", "draws: 2 of 2 tables, ")
    assert len(ends) == len(wanted)
    for line, start in zip(ends, wanted, strict=True):
        assert line.startswith(start)


def test_rows_that_have_converged_have_nothing_to_go(monkeypatch):
    """One sweep estimates them, however short a part of the time limit it took."""
    shares, report = [], progress.Progress.report

    def noted(self, text, share=0.0):
        report(self, text, share)
        if text.startswith("evidence"):
            shares.append((self.share, self.left))

    monkeypatch.setattr(progress.Progress, "report", noted)
    mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows()]), table())
    assert shares == [(1.0, None)]


def mc_frame():
    x = np.random.default_rng(1).standard_normal((40, 3))
    x[::5, 0] = np.nan
    return pd.DataFrame(x, columns=list("abc"))


def test_a_notebook_has_a_bar_of_its_own(monkeypatch, quick):
    seen = []

    class Handle:
        def update(self, picture, raw):
            seen.append(picture)

    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.ModuleType("IPython.display")
    notebook.display.display = lambda picture, raw, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    with stage("<b>") as here:
        here.report("gap 1e-3", 0.25)
        time.sleep(0.3)
    assert '<progress value="0.250" max="1"></progress> &lt;b&gt;: gap' in seen[0]["text/html"]
    assert seen[-1] == {"text/plain": "", "text/html": ""}
