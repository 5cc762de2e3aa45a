"""What the package shows: its names, those of a fit, and one convention for arguments."""

import inspect
import re

import mcframe as mc

# What a fit says, by kind: what it is, how good it is, its parameters, its answers.
FIT = {
    *("model", "problem", "status", "message", "backend", "history", "random_state", "notes"),
    *("objective", "bound", "gap", "rounding", "allowed_excess"),
    *("latent", "rank", "effects", "bias", "row_effects", "likelihood", "point", "paused"),
    *("natural", "predict", "predict_pairs", "impute", "top", "log_likelihood", "losses_at"),
    *("plot", "save"),
    *("predict_rows", "impute_rows", "latent_rows", "top_rows", "residual", "compact", "of"),
}


def test_the_package_shows_its_public_names_alone():
    assert dir(mc) == sorted(mc.__all__)
    for name in ("datasets", "estimators", "papers", "plots", "laws"):
        assert inspect.ismodule(getattr(mc, name))


def test_a_fit_shows_stable_names_alone():
    assert {name for name in dir(mc.Fit) if not name.startswith("_")} == FIT


def test_every_public_name_is_documented():
    """Attributes among those of the class, all else by a docstring of its own."""
    attributes = re.findall(r"^([a-z_, ]+) :", inspect.getdoc(mc.Fit), re.MULTILINE)
    listed = {name for names in attributes for name in names.split(", ")}
    for name in FIT - listed:
        assert inspect.getdoc(inspect.getattr_static(mc.Fit, name)), name
    assert all(inspect.getdoc(getattr(mc, name)) for name in mc.__all__)


def test_methods_of_a_fit_take_the_block_first():
    for name in sorted(FIT):
        member = getattr(mc.Fit, name)
        if callable(member):
            parameters = list(inspect.signature(member).parameters)
            if "block" in parameters:
                assert parameters[:2] == ["self", "block"]


OTHER_NAMES = {"seed", "rng", "budget_seconds", "timeout", "threads", "n_threads", "jobs"}


def test_arguments_have_one_name_everywhere():
    """Seeds are ``random_state``, limits of time ``max_seconds``, threads ``n_jobs``."""
    for module in (mc, mc.estimators, mc.laws):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
                assert not OTHER_NAMES & set(inspect.signature(value).parameters), name
