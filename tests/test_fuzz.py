"""Random models, data, options and verbs, many of them wrong: certified answers, honest statuses,
and errors and warnings of the package, and nothing else.

Some draws run with all tests. ``pytest -m fuzz -n 0 tests/test_fuzz.py`` goes on for as many
minutes as ``MCFRAME_FUZZ_MINUTES`` says, 10 by default, and prints how often each verb ended in
what way.
"""

import contextlib
import io
import os
import time
import traceback
import warnings
from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import mcframe as mc

from . import fuzzing
from .bad_inputs import KNOWN, is_of_scikit_learn


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
                    where = traceback.extract_tb(error.__traceback__)[-1]
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


def report(tally, record_property):
    for verb, ends in tally.lines():
        record_property(f"fuzz, {verb}", ends)
    assert not tally.faults, "\n\n".join(tally.faults.values())


@pytest.mark.parametrize("verb", fuzzing.VERBS)
def test_a_few_random_calls(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = Tally()
    draw_cases(tally, 0, 3, [verb])
    assert not tally.faults, "\n\n".join(tally.faults.values())


@pytest.mark.fuzz
def test_random_calls(record_property, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    end = time.monotonic() + 60.0 * float(os.environ.get("MCFRAME_FUZZ_MINUTES", "10"))
    first, tally = int(os.environ.get("MCFRAME_FUZZ_SEED", "1")), Tally()
    part = first
    while time.monotonic() < end:
        draw_cases(tally, part, 50, list(fuzzing.VERBS))
        part += 1
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
