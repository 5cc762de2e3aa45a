"""What the package shows: its names, those of a fit, and one convention for arguments."""

import inspect
import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe import papers
from mcframe.contracts.validators import Option, Options, suggests_options

from .fuzzing import answers

# What a fit says, by kind: what it is, how good it is, its parameters, its answers.
FIT = {
    *("model", "problem", "status", "message", "backend", "history", "random_state", "notes"),
    *("objective", "bound", "gap", "rounding", "allowed_excess"),
    *("latent", "rank", "effects", "bias", "row_effects", "likelihood", "point"),
    *("natural", "predict", "predict_pairs", "impute", "top", "log_likelihood", "losses_at"),
    *("plot", "save", "reason"),
    *("predict_rows", "impute_rows", "latent_rows", "top_rows", "residual", "compact", "of"),
}


def test_the_package_shows_its_public_names_and_packages_alone():
    packages = {"backends", "datasets", "estimators", "papers", "plots", "selection"}
    assert dir(mc) == sorted({*mc.__all__, *packages})
    for name in (*packages, "laws"):
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


def test_attributes_of_answers_are_there_or_not():
    """Tools that list members ask for all of them; what is not there says how to get it."""
    for answer in answers()[2]:
        assert inspect.getmembers(answer)
    completed = [each for each in answers()[2] if isinstance(each, mc.Completion)]
    (posterior,), (optimum,) = (
        [each for each in completed if isinstance(each.answer, kind)]
        for kind in (mc.Posterior, mc.Fit)
    )
    assert (hasattr(posterior, "fit"), hasattr(optimum, "fit")) == (False, True)
    assert (hasattr(posterior, "posterior"), hasattr(optimum, "posterior")) == (True, False)
    assert (hasattr(posterior, "sd"), hasattr(optimum, "sd")) == (True, False)
    for error in (mc.ModelError, AttributeError):
        with pytest.raises(error, match="take method='optimum' in complete"):
            _ = posterior.fit


def random_calls(folder):
    """A call with an option ``random_state`` of each public function and class that has one."""
    x = np.random.default_rng(0).standard_normal((12, 4))
    x[::3, 1] = np.nan
    data, frame = {"x": x}, pd.DataFrame(x, columns=list("abcd"))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    posterior, completed = mc.posterior(model, data), mc.complete(frame)
    problem, chosen = (
        mc.Problem.bind(model, data),
        {
            "weights": mc.selection.Grid(count=2, patience=None),
            "cv": 2,
        },
    )
    labels = (np.nan_to_num(x) > 0) * 1.0
    file = folder / "rows.parquet"
    frame.to_parquet(file)
    return {
        "fit": lambda seed: mc.fit(model, data, random_state=seed),
        "path": lambda seed: mc.path(
            model, data, weights=mc.selection.Grid(count=2), random_state=seed
        ),
        "posterior": lambda seed: mc.posterior(model, data, random_state=seed),
        "cross_validate": lambda seed: mc.cross_validate(model, data, random_state=seed, **chosen),
        "compare": lambda seed: mc.compare({"a": model}, data, cv=2, random_state=seed),
        "complete": lambda seed: mc.complete(frame, random_state=seed),
        "Completion.draws": lambda seed: completed.draws(1, random_state=seed),
        "tipping_point": lambda seed: mc.tipping_point(
            completed, lambda _: (1.0, 1.0), {}, [0], m=2, random_state=seed
        ),
        "Posterior.conformalize": lambda seed: posterior.conformalize(random_state=seed),
        "Posterior.conformalize_jointly": lambda seed: posterior.conformalize_jointly(
            random_state=seed
        ),
        "verify_posterior": lambda seed: mc.verify_posterior(
            model, data, factors=1, n_draws=64, random_state=seed
        ),
        "complete_file": lambda seed: mc.datasets.complete_file(
            file, file.with_name("done.parquet"), random_state=seed, overwrite=True
        ),
        "hide": lambda seed: mc.datasets.hide(x, 0.2, random_state=seed).cells,
        "check_likelihood": lambda seed: mc.laws.check_likelihood(
            mc.Gaussian(), random_state=seed
        ),
        "check_regularizer": lambda seed: mc.laws.check_regularizer(
            mc.Ridge(1.0), random_state=seed
        ),
        "MatrixCompletionImputer": lambda seed: mc.estimators.MatrixCompletionImputer(
            random_state=seed
        ).fit(x),
        "MatrixCompletionRegressor": lambda seed: mc.estimators.MatrixCompletionRegressor(
            random_state=seed, n_weights=3
        ).fit(x, x[:, 0]),
        "MatrixCompletionClassifier": lambda seed: mc.estimators.MatrixCompletionClassifier(
            random_state=seed, n_weights=3
        ).fit(x, x[:, 0] > 0),
        "projected_factors": lambda seed: papers.projected_factors(
            papers.pn(2.0), {"labels": labels}, 2, 0.1, max_iter=2, random_state=seed
        ),
        "tmcc_accelerated": lambda seed: papers.tmcc_accelerated(
            papers.mc0(96, 0.1, {"labels": mc.Bernoulli()}),
            {papers.wang.FEATURES_BLOCK: x, "labels": labels},
            max_iter=2,
            random_state=seed,
        ),
        "EntryFolds.split": lambda seed: list(mc.selection.EntryFolds(2).split(problem, seed)),
        "RowFolds.split": lambda seed: list(mc.selection.RowFolds(2).split(problem, seed)),
        "folds_of": lambda seed: mc.selection.folds_of(
            mc.selection.EntryFolds(2), problem, data, seed
        ),
    }


VERBS = ("fit", "posterior", "path", "cross_validate", "compare", "verify", "verify_posterior")


@pytest.mark.parametrize("verb", [*VERBS, "complete"])
def test_plain_options_are_checked_by_one_table(verb):
    """A wrong value of an option is answered by the sentence of the table in every verb."""
    function, x = getattr(mc, verb), np.eye(6)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    data = [pd.DataFrame(x)] if verb == "complete" else [model, {"x": x}]
    if verb in ("cross_validate", "compare"):
        data[0] = {"one": model, "two": model} if verb == "compare" else [model]
    options = {
        name: option for name, option in vars(Options).items() if isinstance(option, Option)
    }
    if verb == "cross_validate":
        options["n_jobs"] = options["n_processes"]
    checked = options.keys() & inspect.signature(function).parameters.keys() - {"cv", "method"}
    assert checked
    for name in checked:
        wrong = ["no value of it"]
        with pytest.raises(mc.ModelError) as expected:
            options[name](wrong)
        with pytest.raises(mc.ModelError, match=re.escape(str(expected.value))):
            function(*data, **{name: wrong})


def takes_a_seed(value):
    return callable(value) and "random_state" in inspect.signature(value).parameters


def test_every_random_state_takes_a_seed_a_generator_or_none(tmp_path):
    """And what else is given raises the same sentence everywhere."""
    modules = (mc, mc.datasets, mc.estimators, mc.laws, mc.selection, mc.papers)
    public = {name: getattr(module, name) for module in modules for name in dir(module)}
    public = {
        name: value
        for name, value in public.items()
        if not name.startswith("_")
        and not (inspect.isclass(value) and issubclass(value, Exception | Warning))
    }
    methods = {
        f"{name}.{method}": getattr(value, method)
        for name, value in public.items()
        if inspect.isclass(value) and value.__module__.startswith("mcframe")
        for method in dir(value)
        if not method.startswith("_")
    }
    records = {"Fit", "Posterior", "Settings"}  # which say what seed was used
    taking = {name for name, value in (public | methods).items() if takes_a_seed(value)}
    taking -= {name for name in taking if name.split(".")[0] in records and name.endswith(".of")}
    taking -= {"Splitter.split", "TimeFolds.split"}  # which draw nothing
    calls = random_calls(tmp_path)
    assert set(calls) == taking - records
    taken = itertools.cycle([None, np.random.default_rng(0), np.random.RandomState(0)])
    for name, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in itertools.islice(taken, 2):
                call(seed)
        for seed in (-1, 1.5, True, "a"):
            with pytest.raises(mc.ModelError, match="an integer from 0, a generator of numpy"):
                call(seed)
            assert name


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda model, data: mc.path(model, data, count=3, ratio=0.1),
            r"path\(\) has no option count any more; give weights=mc.selection.Grid\(count=3\)\."
            r" It has no option ratio any more; give weights=mc.selection.Grid\(ratio=0.1\)",
        ),
        (
            lambda model, data: mc.path(model, data, term=mc.NuclearNorm),
            r"no option term any more; give weights=mc.selection.Grid\(term=\.\.\.\)",
        ),
        (
            lambda model, data: mc.cross_validate(model, data, patience=None),
            r"cross_validate\(\) has no option patience .*Grid\(patience=None\)",
        ),
        (
            lambda model, data: mc.cross_validate(model, data, max_iter=9),
            r"no option max_iter .*max_seconds= .*mc.path\(.*max_iter=9\)",
        ),
        (
            lambda model, data: mc.cross_validate(model, data, effects_weight=0.2),
            r"no option effects_weight .*Block\(effects_weight=0.2\)",
        ),
        (
            lambda model, data: mc.fit(model, data, force=True),
            r"fit\(\) has no option force .*mc.Reference\(force=True\)",
        ),
        (lambda model, data: mc.fit(model, data, client=None), r"client.as_current\(\)"),
        (lambda model, data: mc.posterior(model, data, scratch="."), "option scratch .*TMPDIR"),
        (
            lambda model, data: mc.verify(model, data, solver="SCS"),
            r"verify\(\) has no option solver .*reference=mc.Reference\(solver='SCS'\)",
        ),
        (
            lambda model, data: mc.path(model, data, cuont=3),
            "has no option 'cuont'",
        ),
        (lambda model, data: mc.fit(model, data, seed=3), "did you mean 'random_state'"),
        (lambda model, data: mc.posterior(model, data, rank=3), "did you mean 'factors'"),
    ],
)
def test_options_that_are_gone_name_their_successors(call, named):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    with pytest.raises(TypeError, match=named):
        call(model, {"x": np.eye(3)})


# Misspelt options

FIT_OPTION, TYPES_OPTION = "did you mean 'max_seconds'?", "did you mean 'types'?"
MISSPELT = {
    "mc.fit(model, data, max_second=1)": FIT_OPTION,
    "mc.fit(model, data, max_seconds=1, tolerance=1e-3)": "did you mean 'tol'?",
    "mc.posterior(model, data, max_secs=1)": FIT_OPTION,
    "mc.complete(frame, typs={})": TYPES_OPTION,
    "mc.declare(frame, type={})": TYPES_OPTION,
    "mc.path(model, data, weigths=[1])": "did you mean 'weights'?",
    "mc.cross_validate(model, data, criterium=1)": "did you mean 'criterion'?",
    "mc.compare({'one': model}, data, random_stat=1)": "did you mean 'random_state'?",
    "mc.from_triples(frame, row='a', column='b', values='c')": "did you mean 'value'?",
    "mc.load(pth='a')": "did you mean 'path'?",
    "mc.Block('x', mc.Gaussian(), standardise=True)": "did you mean 'standardize'?",
    "mc.Model([], term=[])": "did you mean 'terms'?",
    "mc.NuclearNorm(wieght=1.0)": "did you mean 'weight'?",
    "mc.Huber(dleta=1.0)": "did you mean 'delta'?",
    "mc.Proximal(max_rnk=1)": "the options are",
    "mc.Observations(frame, weigths=1)": "did you mean 'weights'?",
    "mc.selection.Grid(cuont=3)": "did you mean 'count'?",
    "mc.selection.RowFolds(group=[1])": "did you mean 'groups'?",
    "mc.datasets.read_csv('a', {}, delimeter=';')": "did you mean 'delimiter'?",
    "mc.datasets.on_disk(floder='a')": "did you mean 'folder'?",
    "mc.estimators.MatrixCompletionImputer(wieght=1)": "did you mean 'weight'?",
    "mc.estimators.MatrixCompletionClassifier(likelihood=1)": "did you mean 'likelihoods'?",
    "mc.plots.gap(fit, axs=None)": "did you mean 'ax'?",
    "fit.plot.missingness(axs=None)": "did you mean 'ax'?",
    "fit.predict('x', row=[0])": "did you mean 'rows'?",
    "fit.save(pth='a')": "did you mean 'path'?",
    "completed.draws(1, random_sate=0)": "did you mean 'random_state'?",
    "completed.interval(levl=0.9)": "did you mean 'level'?",
    "completed.declared.rows(frame, unsen='error')": "did you mean 'unseen'?",
}


@pytest.fixture(scope="module")
def asked():
    """The names of the expressions."""
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 3)), columns=list("abc"))
    data = {"x": frame.to_numpy()}
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    fit, completed = mc.fit(model, data), mc.complete(frame)
    return {"mc": mc, **locals()}


@pytest.mark.parametrize("code", MISSPELT)
def test_a_misspelt_option_is_answered_by_the_one_that_was_meant(code, asked):
    with pytest.raises(TypeError) as caught:
        eval(code, dict(asked))
    assert "has no option" in str(caught.value)
    assert str(caught.value).endswith(MISSPELT[code]) or MISSPELT[code] == "the options are"


def test_every_public_function_and_class_answers_misspelt_options():
    packages = [mc, mc.selection, mc.datasets, mc.estimators, mc.plots]
    for package in packages:
        for name in package.__all__:
            value = getattr(package, name)
            if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
                continue
            try:
                parameters = list(inspect.signature(value).parameters.values())
            except ValueError:  # of a builtin
                continue
            if any(p.kind is p.VAR_KEYWORD for p in parameters) or not parameters:
                continue
            if inspect.isabstract(value) or vars(value).get("_is_protocol"):
                continue
            with pytest.raises(TypeError, match="has no option 'zzqx'"):
                value(zzqx=1)


def test_errors_within_a_call_stay_as_they_are():
    def work(given, times=2):
        return given * times

    checked = suggests_options(work)
    assert checked("a", times=3) == "aaa"
    with pytest.raises(TypeError, match="unsupported operand"):
        checked({}, times={})
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        checked()
    with pytest.raises(TypeError, match=re.escape("work() has no option 'tmies'; did you")):
        checked("a", tmies=3)
