"""Every backend against the reference, on random models."""

import warnings

import pytest
from hypothesis import Phase, given, settings

import mcframe as mc
from mcframe.backends import verdicts

from .strategies import problems

BACKENDS = ("proximal", "fpc")


class Tally:
    """What the examples of one run showed."""

    def __init__(self):
        self.seen, self.missed = 0, 0
        self.worst = dict.fromkeys(BACKENDS, 0.0)
        self.statuses = {}

    def add(self, backend, agreement):
        key = (backend, agreement.status)
        self.statuses[key] = self.statuses.get(key, 0) + 1
        if agreement.exact:
            self.worst[backend] = max(self.worst[backend], agreement.difference)

    def __str__(self):
        worst = ", ".join(f"{name} {value:.1e}" for name, value in self.worst.items())
        statuses = ", ".join(f"{b} {s} {n}" for (b, s), n in sorted(self.statuses.items()))
        return (
            f"{self.seen} random models, {self.missed} on which the conic solver missed its own"
            f" tolerance (bounds compared there, objectives not); largest relative difference"
            f" from the reference: {worst}; bounds above the reference: 0; {statuses}"
        )


def run(n_examples, record_property):
    tally = Tally()

    @settings(max_examples=n_examples, phases=[Phase.generate])  # shrinking takes minutes
    @given(problems())
    def agrees(example):
        model, data = example
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            warnings.simplefilter("ignore", mc.UnobservedWarning)
            reference = mc.fit(model, data, backend="reference")
        able = {verdict.name for verdict in verdicts(reference.problem) if verdict.can_run}
        found = {
            backend: mc.laws.check_agreement(backend, model, data, reference=reference)
            for backend in BACKENDS
            if backend in able
        }
        tally.seen += 1
        tally.missed += not found["proximal"].exact
        for backend, agreement in found.items():
            tally.add(backend, agreement)

    agrees()
    record_property("agreement", str(tally))
    assert tally.seen >= n_examples
    assert tally.missed < 0.05 * tally.seen


def test_every_backend_reaches_the_reference(record_property):
    run(300, record_property)


@pytest.mark.slow
def test_every_backend_reaches_the_reference_often(record_property):
    run(2000, record_property)
