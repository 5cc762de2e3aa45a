"""The command that reproduces tables and figures, on an experiment of its own."""

import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import attrs
import numpy as np
import pytest
from papers import Run, experiments, find, listing, registry
from papers import pages as page_module
from papers.__main__ import main
from papers.experiment import (
    Cause,
    Experiment,
    Measured,
    Published,
    Trial,
    summarised,
)
from papers.registry import PAPERS
from papers.report import OPEN, Row, Tally, rows_of, tally, with_deviation
from papers.runner import Interrupted, attempts
from papers.store import Header, Result, Store, commit

import mcframe as mc

ROOT = Path(__file__).resolve().parents[1]
FULL = ["noise-table1", "--jobs", "1"]


@attrs.frozen
class Noise(Experiment):
    name = "noise-table1"
    title = "Means of normal numbers"
    source = "Nobody (2026), Table 1"
    default_trials = 3
    measure = "statistic"
    notes = ("The seed is all there is.",)

    n: int = 500

    @classmethod
    def tiny(cls):
        return cls(n=5)

    def settings(self):
        return ("low", "high | 2")

    def run(self, setting, rng):
        values = rng.standard_normal(self.n) + (setting != "low")
        # A product that several threads would sum in another order.
        square = rng.standard_normal((80, 80))
        return {"mean": float(values.mean()), "largest": np.linalg.norm(square @ square)}

    def published(self):
        if self.n < 500:
            return {}
        return {
            ("low", "mean"): Published(0.5, 0.01, 10),
            ("high | 2", "mean"): Published(1.0, 0.5, 4),
            ("high | 2", "median"): Published(1.02, 0.1),
        }

    def trials_of(self, setting, trials):
        return trials if setting == "low" else min(trials, 2)

    def draw(self, figure, summary):
        axes = figure.subplots()
        axes.plot([summary[setting]["mean"].mean for setting in self.settings()])
        return True


EXPERIMENTS = (Noise,)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.PAPERS, "noise", __name__)
    return tmp_path / "reproduction"


def stored(path):
    """The results of a file, without what varies from run to run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return {(line["setting"], line["number"]): line["measures"] for line in lines}


def breaking(monkeypatch, breaks):
    """Let trials do something else where ``breaks`` says so."""
    run = Noise.run

    def broken(self, setting, rng):
        breaks(setting)
        return run(self, setting, rng)

    monkeypatch.setattr(Noise, "run", broken)


# The whole command


def test_it_stores_reports_and_draws(place, capsys):
    assert main(FULL) == 0
    printed = capsys.readouterr()
    report = (place / "noise-table1.md").read_text()
    lines = report.splitlines()
    assert lines[0] == "# Means of normal numbers"
    table = [line for line in lines if line.startswith("|")]
    columns = [text.strip() for text in table[0].strip("|").split("|")]
    assert columns == ["setting", "statistic", "paper", "ours", "trials", "difference", "cause"]
    assert len({len(line) for line in table}) == 1
    # 0.5 is far from a mean of normal numbers, and set off.
    assert table[2].startswith(r"| low       | mean      | 0.50 ± 0.01 |")
    assert "**-" in table[2]
    assert r"| high \| 2 | median" in table[-1]
    assert "| low       | largest   |             |" in report
    assert "| 3      |" in table[2]
    assert "| 2      |" in table[4]
    assert "1 of 2 differences are more than 2 standard errors; 0 of them have" in report
    assert table[2].endswith("| open  |")
    assert "The seed is all there is." in report
    assert "`python examples/papers noise-table1`" in report
    assert "- seed: 0" in report
    assert "no deviation or no number of trials" in report
    assert "![Means of normal numbers](noise-table1.png)" in report
    assert (place / "noise-table1.png").read_bytes().startswith(b"\x89PNG")
    for line in table:
        assert line in printed.out
    assert "5 trials; 1 process" in printed.err
    assert "5 of 5 trials" in printed.err
    assert len(stored(place / "noise-table1.jsonl")) == 5


def test_tiny_is_stored_apart_and_has_no_columns_of_the_paper(place, capsys):
    assert main([*FULL, "--tiny"]) == 0
    report = (place / "noise-table1-tiny.md").read_text()
    assert "| setting   | statistic | ours" in report
    assert "paper" not in report.splitlines()[4]
    assert "--tiny`" in report
    assert not (place / "noise-table1.jsonl").exists()


def test_the_results_are_those_of_other_processes_and_of_another_order(place, capsys):
    assert main(FULL) == 0
    assert main([*FULL, "--jobs", "2", "--out", "two"]) == 0
    alone = stored(place / "noise-table1.jsonl")
    assert stored(place.parent / "two" / "noise-table1.jsonl") == alone
    backwards = Noise().trials(3)[::-1]
    found = dict(attempts(Noise(), backwards, seed=0, jobs=1))
    assert {(t.setting, t.number): r.measures for t, r in found.items()} == alone


def test_the_seed_changes_the_results(place, capsys):
    assert main(FULL) == 0
    assert main([*FULL, "--seed", "1", "--out", "one"]) == 0
    one, zero = (stored(folder / "noise-table1.jsonl") for folder in (place.parent / "one", place))
    assert one.keys() == zero.keys()
    assert all(one[key] != zero[key] for key in one)


def test_more_trials_are_added_to_a_finished_run(place, capsys, monkeypatch):
    assert main([*FULL, "--trials", "1"]) == 0
    assert len(stored(place / "noise-table1.jsonl")) == 2
    calls = []
    breaking(monkeypatch, calls.append)
    assert main([*FULL, "--resume"]) == 0
    assert calls == ["low", "high | 2", "low"]
    assert "5 trials, 2 of them stored before" in capsys.readouterr().err
    assert main([*FULL, "--out", "once"]) == 0
    once = stored(place.parent / "once" / "noise-table1.jsonl")
    assert stored(place / "noise-table1.jsonl") == once


@pytest.mark.slow(seconds=2)
def test_a_killed_run_goes_on_where_it_stopped(place, capsys):
    assert main(FULL) == 0
    whole = stored(place / "noise-table1.jsonl")
    script = f"""
import os, signal, sys
sys.path.insert(0, "examples")
from papers.__main__ import main
from papers import registry
from tests.test_reproduction import Noise

calls, run = [], Noise.run

def mortal(self, setting, rng):
    calls.append(setting)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, setting, rng)

Noise.run = mortal
registry.PAPERS["noise"] = "tests.test_reproduction"
sys.exit(main({[*FULL, "--out", str(place / "killed")]!r}))
"""
    command = [sys.executable, "-c", script]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    file = place / "killed" / "noise-table1.jsonl"
    assert len(stored(file)) == 3
    with file.open("a") as half:
        half.write('{"setting": "low", "numb')
    assert main([*FULL, "--out", str(file.parent), "--resume"]) == 0
    assert stored(file) == whole
    assert [line[0] for line in file.read_text().splitlines()] == ["{"] * 6


def test_a_trial_that_fails_loses_no_other_and_is_tried_again(place, capsys, monkeypatch):
    def fail(setting):
        if setting != "low":
            raise ValueError("no luck")

    with monkeypatch.context() as patch:
        breaking(patch, fail)
        assert main(FULL) == 1
    printed = capsys.readouterr()
    assert "high | 2, trial 0 and 1 more: ValueError: no luck" in printed.err
    assert 'raise ValueError("no luck")' in printed.err
    assert printed.err.rstrip().endswith("python examples/papers noise-table1 --resume")
    report = (place / "noise-table1.md").read_text()
    assert "Failed and left out: high | 2, trial 1: ValueError: no luck" in report
    assert "drawing it failed (KeyError: 'high | 2')" in printed.out
    assert len(stored(place / "noise-table1.jsonl")) == 3
    assert main([*FULL, "--resume"]) == 0
    assert len(stored(place / "noise-table1.jsonl")) == 5


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_is_finished(place, capsys, monkeypatch, how):
    def interrupt(setting):
        # A fit answers KeyboardInterrupt with its best point: that must not become a result.
        try:
            if setting != "low":
                os.kill(os.getpid(), how)
                time.sleep(5.0)
        except KeyboardInterrupt:
            pass

    before = signal.getsignal(how)
    breaking(monkeypatch, interrupt)
    assert main([*FULL, "--trials", "2"]) == 130
    error = capsys.readouterr().err
    assert "interrupted; 1 of 4 trials are stored in" in error
    assert "python examples/papers noise-table1 --trials 2 --resume" in error
    assert list(stored(place / "noise-table1.jsonl")) == [("low", 0)]
    assert signal.getsignal(how) is before


def test_ctrl_c_by_name_is_no_traceback_either(place, capsys, monkeypatch):
    def interrupt(setting):
        raise KeyboardInterrupt

    breaking(monkeypatch, interrupt)
    assert main(FULL) == 130
    assert "0 of 5 trials are stored" in capsys.readouterr().err


def test_no_fit_catches_the_interruption():
    assert not issubclass(Interrupted, (Exception, KeyboardInterrupt))


@attrs.frozen
class Deadly(Noise):
    def run(self, setting, rng):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow(seconds=5)
def test_a_process_that_dies_is_one_line(place, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "EXPERIMENTS", (Deadly,))
    assert main([*FULL, "--jobs", "2"]) == 1
    error = capsys.readouterr().err
    assert "a process of a trial died" in error
    assert "0 of 5 trials are stored" in error
    assert "--resume" in error


def test_warnings_are_counted_not_printed(place, capsys, monkeypatch):
    def warn(setting):
        if setting == "low":
            warnings.warn("loud", mc.NotCertifiedWarning, stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    breaking(monkeypatch, warn)
    assert main(FULL) == 0
    assert "3 of 5 trials gave a NotCertifiedWarning." in capsys.readouterr().out
    lines = (place / "noise-table1.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["warnings"] == {"NotCertifiedWarning": 1}


def test_without_matplotlib_there_is_all_but_the_picture(place, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(FULL) == 0
    assert 'pip install "mcframe[plot]"' in capsys.readouterr().out
    assert "![" not in (place / "noise-table1.md").read_text()


def test_an_experiment_without_a_picture_says_so(place, capsys, monkeypatch):
    monkeypatch.setattr(Noise, "draw", Experiment.draw)
    assert main(FULL) == 0
    assert "no picture: the paper has a table here" in capsys.readouterr().out


def test_on_a_terminal_there_is_a_bar_and_a_table(place, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(FULL) == 0
    printed = capsys.readouterr()
    assert "0.50 ± 0.01" in printed.out
    assert "high |" in printed.out
    assert "seed: 0" in printed.out
    assert "noise-table1: 5 of 5 trials after" in printed.err


# Mistakes of the user


def test_without_a_name_all_are_listed(place, capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "noise-table1\n    Means of normal numbers\n    Nobody (2026), Table 1; 3 trials" in out


def test_an_unknown_name_is_exit_code_2_with_a_list(place, capsys):
    assert main(["noise-tabel1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "mcframe: there is no 'noise-tabel1' to reproduce; did you mean noise-table1? There are\n"
    )
    assert "Means of normal numbers" in error
    assert main(["x"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "'0' was given; a whole number from 1 is needed"),
        (["--jobs", "many"], "'many' was given; a whole number from 1 is needed"),
        (["--seed", "-1"], "'-1' was given; a whole number from 0 is needed"),
    ],
)
def test_wrong_arguments_are_exit_code_2_and_one_line(place, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(["noise-table1", *arguments])
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.count("\n") == 1
    assert message in error


def refused(arguments, capsys):
    """Run, expect a mistake, and give the line that is printed."""
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("mcframe: ")
    assert error.count("\n") == 1
    return error


def test_results_are_not_overwritten(place, capsys):
    assert main(FULL) == 0
    before = (place / "noise-table1.jsonl").read_bytes()
    error = refused(FULL, capsys)
    assert "holds results, 6 lines of them; go on with them by --resume" in error
    assert "another folder by --out" in error
    assert (place / "noise-table1.jsonl").read_bytes() == before


def test_results_of_another_run_are_not_mixed_in(place, capsys):
    assert main(FULL) == 0
    before = (place / "noise-table1.jsonl").read_bytes()
    error = refused([*FULL, "--resume", "--seed", "3"], capsys)
    assert "seed is 0 there and 3 here; give the same, or another folder by --out" in error
    assert (place / "noise-table1.jsonl").read_bytes() == before


def test_a_newer_version_goes_on_and_the_file_names_the_one_that_began_it(place, monkeypatch):
    assert main(FULL) == 0
    before = (place / "noise-table1.jsonl").read_bytes()
    monkeypatch.setattr("papers.store.__version__", "9.9")
    assert main([*FULL, "--resume"]) == 0
    assert (place / "noise-table1.jsonl").read_bytes() == before


def test_a_file_that_was_killed_at_birth_is_begun_again(tmp_path):
    header = Header.of(Noise(), seed=0, tiny=False, begun="2026-01-01")
    path = tmp_path / "some.jsonl"
    for content in ("", '{"name": "noi', json.dumps(attrs.asdict(header)) + "\n"):
        for resume in (False, True):
            path.write_text(content)
            assert Store(path, header, resume=resume).results == {}
            assert json.loads(path.read_text()) == attrs.asdict(header)


def test_other_sizes_are_another_run(tmp_path):
    options = {"seed": 0, "tiny": False, "begun": "2026-01-01"}
    path = tmp_path / "some.jsonl"
    Store(path, Header.of(Noise(), **options), resume=False).add(Trial("low", 0), Result({}))
    with pytest.raises(mc.DataError, match="the field n is 500 there and 7 here"):
        Store(path, Header.of(Noise(7), **options), resume=True)
    later = Header.of(Noise(), **{**options, "begun": "2027-01-01"})
    later = attrs.evolve(later, commit="another")
    assert Store(path, later, resume=True).header.begun == "2026-01-01"


@attrs.frozen
class Halves(Noise):
    """Trials in two parts, whose results another table shows as well."""

    name = "noise-table2"

    def parts(self, setting):
        return ("mean", "largest")

    def run_part(self, setting, part, rng):
        return {part: self.run(setting, rng)[part]}


class Shown(Halves):
    name = "noise-table3"
    trials_from = "noise-table2"

    def shows(self, measure):
        return measure == "largest"


def test_parts_of_a_trial_are_run_and_stored_apart(place, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "EXPERIMENTS", (Noise, Halves, Shown))
    assert main(FULL) == 0
    one = ["noise-table2", "--jobs", "1", "--part", "mean"]
    assert main(one) == 0
    assert "5 trials; 1 process" in capsys.readouterr().err
    lines = (place / "noise-table2.jsonl").read_text().splitlines()[1:]
    assert {json.loads(line)["part"] for line in lines} == {"mean"}
    assert main(["noise-table3", "--jobs", "1", "--resume"]) == 0
    assert "10 trials, 5 of them stored before" in capsys.readouterr().err
    results = Store(place / "noise-table2.jsonl", header_of(Halves()), resume=True).results
    measures = {(trial.setting, trial.number): {} for trial in results}
    for trial, result in results.items():
        measures[trial.setting, trial.number] |= result.measures
    assert measures == stored(place / "noise-table1.jsonl")
    report = (place / "noise-table3.md").read_text()
    assert "| largest" in report
    assert "| mean" not in report
    assert not (place / "noise-table3.jsonl").exists()
    error = refused(["noise-table2", "--part", "median"], capsys)
    assert "--part 'median' was given; noise-table2 has 'mean', 'largest'" in error
    error = refused(["noise-table2", "--setting", "lower"], capsys)
    assert "--setting 'lower' was given; noise-table2 has 'low', 'high | 2'" in error
    assert main([*one, "--setting", "low", "--out", "low"]) == 0
    assert {trial for trial, _ in stored(place.parent / "low" / "noise-table2.jsonl")} == {"low"}


def header_of(experiment):
    return Header.of(experiment, seed=0, tiny=False, begun="2026-01-01")


def test_the_commit_of_the_code_is_stored(place, capsys):
    found = commit()
    assert found == "" or len(found.removesuffix("+")) >= 7
    assert main(FULL) == 0
    lines = [json.loads(line) for line in (place / "noise-table1.jsonl").read_text().splitlines()]
    assert {line["commit"] for line in lines} == {found}


def test_a_folder_that_cannot_be_made_is_a_mistake(place, capsys):
    place.write_text("a file")
    assert "take another folder by --out" in refused(FULL, capsys)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"setting": "low"}', "line 2, is not the result of a trial"),
        ("[1, 2]", "line 2, is not the result of a trial"),
        ("nonsense", r"\('nonsense'\); delete that line"),
        ('{"setting": "low", "number": 0, "measures": {"mean": "x"}}', "line 2"),
    ],
)
def test_a_spoilt_line_is_named(tmp_path, line, message):
    header = Header.of(Noise(), seed=0, tiny=False, begun="2026-01-01")
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps(attrs.asdict(header)) + "\n" + line + "\n")
    with pytest.raises(mc.DataError, match=message):
        Store(path, header, resume=True)


def test_results_without_a_header_say_what_to_put_first(tmp_path):
    header = Header.of(Noise(), seed=0, tiny=False, begun="2026-01-01")
    path = tmp_path / "some.jsonl"
    result = '{"setting": "low", "number": 0, "measures": {"mean": 1.5}}\n'
    path.write_text(result)
    with pytest.raises(mc.DataError, match="holds results, 1 lines of them"):
        Store(path, header, resume=False)
    with pytest.raises(mc.DataError, match="is no header") as caught:
        Store(path, header, resume=True)
    path.write_text(str(caught.value).partition("put first: ")[2] + "\n" + result)
    assert Store(path, header, resume=True).results[Trial("low", 0)].measures == {"mean": 1.5}


# Its parts


NAMES = sorted(experiments())


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_keeps_the_contract(name):
    kind = find(name)
    assert experiments()[name] is kind
    assert name.partition("-")[0] in PAPERS
    assert kind.title in listing()
    assert kind.default_trials >= 1
    for experiment in (kind(), kind.tiny()):
        settings = experiment.settings()
        assert settings
        assert len(set(settings)) == len(settings)
        assert {setting for setting, _ in experiment.published()} <= set(settings)
        trials = experiment.trials(3)
        assert {trial.setting for trial in trials} == set(settings)
        assert len(set(trials)) == len(trials)
        json.dumps(attrs.asdict(Header.of(experiment, seed=0, tiny=False, begun="")))
    assert not kind.tiny().published()


@pytest.mark.slow
@pytest.mark.reproduction
@pytest.mark.parametrize("name", NAMES)
def test_every_command_runs_in_its_tiny_form(name, place, capsys):
    found = main([name, "--tiny", "--trials", "1", "--jobs", "1"])
    error = capsys.readouterr().err
    if found == 2:
        pytest.skip(error)  # real data that are not there
    assert found == 0, error
    own = experiments()[name].trials_from or name  # where trials are shared, they are stored once
    for result in stored(place / f"{own}-tiny.jsonl").values():
        assert result


def test_the_commands_start_without_the_papers():
    code = (
        "import sys; sys.path.insert(0, 'examples')\n"
        "import papers.__main__ as m, mcframe.__main__ as n\n"
        "m.parser(), n.parser()\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('joblib', 'rich', 'matplotlib')"
        " or n.startswith(('papers.goldberg', 'papers.coco', 'mcframe.papers'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 0.1 + 0.2, 1e-300, np.float32(1)]
)
def test_numbers_survive_the_file(tmp_path, value):
    header = Header.of(Noise(), seed=0, tiny=False, begun="2026-01-01")
    path = tmp_path / "some.jsonl"
    result = Result({"x": float(value)}, 1.5, {"UserWarning": 2})
    Store(path, header, resume=False).add(Trial("low", 3), result)
    back = Store(path, header, resume=True).results
    assert list(back) == [Trial("low", 3)]
    assert repr(back[Trial("low", 3)]) == repr(result)


def test_an_infinity_among_the_trials_is_shown_not_raised():
    measured = Measured((1.0, math.inf))
    assert measured.mean == math.inf
    assert math.isnan(measured.deviation)
    assert measured.distance(Published(1.0, 0.1, 10)) is None


def test_differences_by_hand():
    measured = Measured((1.0, 2.0, 3.0, 4.0))
    deviation = math.sqrt(5.0 / 3.0)
    assert measured.deviation == pytest.approx(deviation, rel=1e-14)
    pooled = math.sqrt((3 * deviation**2 + 8 * 0.6**2) / 11)
    error = pooled * math.sqrt(1 / 4 + 1 / 9)
    assert measured.distance(Published(2.0, 0.6, 9)) == pytest.approx(0.5 / error, rel=1e-14)
    rounded = math.hypot(error, 0.1 / math.sqrt(12))
    assert measured.distance(Published(2.0, 0.6, 9, 1)) == pytest.approx(0.5 / rounded, rel=1e-14)
    assert measured.distance(Published(2.0)) == pytest.approx(1.0 / deviation, rel=1e-14)
    one = Measured((1.0,))
    assert one.distance(Published(2.0)) is None
    assert one.distance(Published(2.0, 0.6, 9)) == pytest.approx(-1 / 0.6 / math.sqrt(1 + 1 / 9))


class Explained(Noise):
    causes = (Cause("rounded", "(mean)", r"\1, rounded"), Cause("said", "largest", settings="low"))

    def published(self):
        return {(s, m): Published(0.5, 0.01, 10) for s in ("low", "high") for m in MEASURES}

    def settings(self):
        return ("low", "high")


MEASURES = ("mean", "largest")


def test_a_cause_counts_where_its_own_measure_is_near_the_paper():
    def found(value, other):
        return {
            "mean": Measured((value, value + 0.01)),
            "mean, rounded": Measured((other, other + 0.01)),
            "largest": Measured((9.0, 9.1)),
        }

    rows = rows_of(Explained(), {"low": found(0.8, 0.5), "high": found(0.8, 0.7)})
    causes = {(row.setting, row.measure): (row.cause, row.aside) for row in rows}
    assert causes == {
        ("low", "mean"): ("rounded", ""),
        ("low", "mean, rounded"): ("", "mean"),
        ("low", "largest"): ("said", ""),
        ("high", "mean"): (OPEN, ""),
        ("high", "mean, rounded"): ("", "mean"),
        ("high", "largest"): (OPEN, ""),
    }
    assert tally(rows) == Tally(cells=4, computed=4, compared=4, within=0, explained=2, open=2)
    near = rows_of(Explained(), {"low": found(0.5, 0.5)})
    assert tally(near) == Tally(cells=4, computed=2, compared=2, within=1, explained=1, open=0)


def test_few_trials_are_far_from_the_paper_by_chance_more_often():
    """P(|t| > 2): with 8 degrees of freedom 0.0805, with 4 (one trial of ours) 0.1161."""
    for trials, chance in ((5, 0.0805), (1, 0.1161)):
        row = Row("s", "m", Published(1.0, 0.1, 5), Measured((1.0,) * trials))
        assert row.chance == pytest.approx(chance, abs=1e-4)


def test_trials_are_summed_up_by_their_numbers():
    results = {Trial("a", 1): {"x": 2.0}, Trial("b", 0): {"x": 5.0}, Trial("a", 0): {"x": 1.0}}
    assert summarised(results) == {
        "a": {"x": Measured((1.0, 2.0))},
        "b": {"x": Measured((5.0,))},
    }


def test_generators_depend_on_setting_number_and_seed():
    def first(setting, number, seed):
        return Trial(setting, number).generator(seed).random()

    drawn = [first("a", 0, 0), first("a", 0, 1), first("a", 1, 0), first("b", 0, 0)]
    assert len(set(drawn)) == 4
    assert first("a", 1, 0) == drawn[2]


def test_the_command_is_written_as_a_shell_takes_it():
    run = Run("noise-table1", trials=2, seed=5, folder="my results", tiny=True)
    assert run.command(resume=True) == (
        "python examples/papers noise-table1 --trials 2 --seed 5 --out 'my results'"
        " --tiny --resume"
    )


# Pages


@pytest.fixture
def numbers(place, capsys, monkeypatch):
    """The numbers of a page, from three trials of Noise."""
    assert main(FULL) == 0
    monkeypatch.setattr(page_module, "RESULTS", place)
    page_module.stored.cache_clear()
    yield page_module.Numbers()
    page_module.stored.cache_clear()


def test_a_page_writes_single_numbers(numbers, place):
    values = [
        m["mean"] for (s, _), m in stored(place / "noise-table1.jsonl").items() if s == "low"
    ]
    name = ("noise-table1", "low")
    assert numbers.mean(*name, "mean") == pytest.approx(np.mean(values))
    assert numbers.ours(*name, "mean") == with_deviation(Measured(tuple(values)))
    assert numbers.theirs("noise-table1", ("low", "high | 2"), "mean") == "0.50 ± 0.01, 1.0 ± 0.5"
    assert numbers.known(*name, "median") == "(not stored)"
    with pytest.raises(mc.DataError, match="no stored trial of noise-table1, low, has 'median'"):
        numbers.mean(*name, "median")
    mean, error, count = numbers.paired(*name, "largest", "mean")
    both = stored(place / "noise-table1.jsonl")
    gaps = [m["largest"] - m["mean"] for (s, _), m in both.items() if s == "low"]
    assert (mean, count) == (pytest.approx(np.mean(gaps)), 3)
    assert error == pytest.approx(np.std(gaps, ddof=1) / math.sqrt(3))


def test_a_page_writes_tables(numbers):
    table = numbers.table("noise-table1", measures="mean")
    assert table.count("\n") == 3
    assert "largest" not in table
    grid = numbers.wide("noise-table1", {"m": "mean", "l": "largest"}).splitlines()
    assert [cell.strip() for cell in grid[0].strip("|").split("|")] == ["setting", "m", "l"]
    across = numbers.across("noise-table1", {"m": "mean"}, "what").splitlines()
    assert r"| what | low" in across[0]
    assert len(across) == 3
    assert numbers.far("noise-table1").startswith("The paper prints 3 figures here, of which 1 ")
    assert numbers.trials("noise-table1") == "2 to 3 trials a setting"
    assert "seed 0; 2 to 3 trials a setting; begun" in numbers.run_of("noise-table1")


def test_an_expression_that_fails_names_itself(numbers):
    place = page_module.PLACE.search('some {{ mean("noise-table1", "low",\n "median") }} text')
    with pytest.raises(mc.DataError) as caught:
        page_module.written(place, numbers.names())
    assert caught.value.__notes__ == [
        'in the template\'s {{ mean("noise-table1", "low", "median") }}'
    ]
