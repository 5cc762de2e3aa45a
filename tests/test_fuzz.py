"""Random models, data, options and verbs, many of them wrong: certified answers, honest statuses,
and errors and warnings of the package, and nothing else.

Some draws run with all tests. ``pytest -m fuzz -n 0 tests/test_fuzz.py`` goes on for as many
minutes as ``MCFRAME_FUZZ_MINUTES`` says, 10 by default, with calls of every verb, and for as many
with fits of random models. It prints how often each verb and each backend ended in what way.
"""

import contextlib
import io
import os
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from itertools import count

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import eligibilities
from mcframe.compile import CompiledProblem
from mcframe.partitions.partitioned_data import RowsInMemory

from . import fuzzing
from .bad_inputs import KNOWN, is_of_scikit_learn
from .test_everything import contradictions

# Gaps that random models are solved to.
TOLERANCES = st.sampled_from([1e-6, 1e-9, 1e-3])


@attrs.define
class Tally:
    """How often each verb ended in what way, and one example of each fault."""

    counts: Counter = attrs.field(factory=Counter)
    faults: dict = attrs.field(factory=dict)

    def take(self, verb, case, call):
        """Count how a call ends; what it should not do is a fault."""
        began = time.process_time()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    end = call()
            except mc.McframeError as error:
                end = type(error).__name__
                if "bug in" in str(error):
                    self.fault(verb, case, str(error))
            except Exception as error:
                end = "scikit-learn's error"
                if not is_of_scikit_learn(error):
                    frames = traceback.extract_tb(error.__traceback__)
                    of_package = [frame for frame in frames if "/mcframe/" in frame.filename]
                    where = [*frames[:1], *of_package][-1]
                    end = "fault"
                    said = f"{type(error).__name__} at {where.filename}:{where.lineno}: {error}"
                    self.fault(verb, case, said[:1000])
        for each in told:
            if each.category not in KNOWN:
                end = "fault"
                self.fault(verb, case, f"{each.filename}:{each.lineno} warns {each.message}")
        if time.process_time() - began > fuzzing.SLOW:
            self.counts[verb, f"took over {fuzzing.SLOW:g} s of CPU"] += 1
            print(f"{verb} took {time.process_time() - began:.0f} s\n    of {case}", flush=True)
        self.counts[verb, end] += 1

    def fault(self, verb, case, said):
        """Keep the first case of each fault."""
        if (verb, said[:120]) not in self.faults:
            self.faults[verb, said[:120]] = f"{verb}: {said}\n    of {case}"
            print(f"{verb}: {said}\n    of {case}", flush=True)

    def lines(self):
        """The table of verbs and outcomes."""
        for verb in sorted({verb for verb, _ in self.counts}):
            ends = {end: count for (of, end), count in self.counts.items() if of == verb}
            yield verb, ", ".join(f"{ends[end]} {end}" for end in sorted(ends, key=ends.get)[::-1])


def draw_cases(tally, part, n_examples, verbs):
    """Run so many random cases, the same ones for the same part."""

    @seed(part)
    @settings(
        max_examples=n_examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def run(data):
        verb = data.draw(st.sampled_from(verbs))
        case, call = fuzzing.VERBS[verb](data.draw)
        tally.take(verb, f"part {part}: {case}", call)

    run()


def draw_models(tally, part, n_examples, seconds=1.0):
    """Fits of so many random models by several backends and in partitions, against each other."""

    @seed(part)
    @settings(
        max_examples=n_examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(fuzzing.MODELS, st.randoms(use_true_random=False), st.integers(1, 4), TOLERANCES)
    def run(example, random, n_partitions, tol):
        model, data = example
        fits, case = [], f"part {part}: {model!r}, tol={tol}\n    {data!r}"
        rows = RowsInMemory(data, min(n_partitions, n_rows_of(data)))
        ways = {"auto": data, "auto in partitions": rows}

        def bind():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", mc.UnobservedWarning)
                verdicts = eligibilities(CompiledProblem(mc.Problem.bind(model, data)))
            names = [verdict.name for verdict in verdicts if verdict.can_run]
            chosen = random.sample(names, min(2, len(names)))
            ways.update(dict.fromkeys({*chosen, *{"reference"}.intersection(names)}, data))
            return "bound"

        def fit_by(name, values):
            backend = name.split()[0]
            fits.append(mc.fit(model, values, backend=backend, tol=tol, max_seconds=seconds))
            return fuzzing.check_fit(fits[-1], tol)

        def compare():
            wrong = list(contradictions(fits, tol))
            assert not wrong, wrong
            return f"{len(fits)} fits without a contradiction"

        tally.take("models", case, bind)
        for name, rows_or_data in ways.items():
            tally.take(f"fits by {name}", case, partial(fit_by, name, rows_or_data))
        tally.take("bounds and objectives", case, compare)

    run()


def n_rows_of(data):
    """The number of rows of all blocks."""
    return len(fuzzing.values_of(next(iter(data.values()))))


def report(tally, record_property):
    for verb, ends in tally.lines():
        record_property(f"fuzz, {verb}", ends)
    assert not tally.faults, "\n\n".join(tally.faults.values())


@pytest.mark.parametrize("verb", fuzzing.VERBS)
def test_a_few_random_calls(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = Tally()
    draw_cases(tally, 0, 2, [verb])
    assert not tally.faults, "\n\n".join(tally.faults.values())


def parts():
    """Numbers of parts from ``MCFRAME_FUZZ_SEED`` on, for ``MCFRAME_FUZZ_MINUTES``."""
    end = time.monotonic() + 60.0 * float(os.environ.get("MCFRAME_FUZZ_MINUTES", "10"))
    for part in count(int(os.environ.get("MCFRAME_FUZZ_SEED", "1"))):
        if time.monotonic() >= end:
            break
        yield part


@pytest.mark.fuzz
def test_random_calls(record_property, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = Tally()
    for part in parts():
        draw_cases(tally, part, 50, list(fuzzing.VERBS))
        print(f"part {part}: {dict(tally.lines())}", flush=True)
    report(tally, record_property)


def test_a_few_random_models():
    tally = Tally()
    draw_models(tally, 0, 3, seconds=0.3)
    assert not tally.faults, "\n\n".join(tally.faults.values())


@pytest.mark.fuzz
def test_random_models(record_property):
    """Up to five fits of each model: their counts by backend and status, and what is wrong."""
    tally = Tally()
    for part in parts():
        draw_models(tally, part, 25)
        print(f"part {part}: {dict(tally.lines())}", flush=True)
    report(tally, record_property)


def test_faults_are_noticed():
    """A foreign error, a foreign warning and a report of a bug."""
    tally = Tally()
    tally.take("verb", "one", lambda: {}["missing"])
    tally.take("verb", "two", lambda: np.float64(1.0) / np.zeros(1)[0])
    tally.take("verb", "three", lambda: (_ for _ in ()).throw(mc.BackendError("a bug in it")))
    tally.take("verb", "four", lambda: mc.Gaussian(0.0))
    assert len(tally.faults) == 3
    assert dict(tally.counts) == {
        ("verb", "fault"): 2,
        ("verb", "BackendError"): 1,
        ("verb", "ModelError"): 1,
    }
