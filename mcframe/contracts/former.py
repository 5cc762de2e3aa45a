"""Options that a function had once: whoever gives one is told its successor."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

Options = ParamSpec("Options")
ResultT = TypeVar("ResultT")

GRID = "give weights=mc.selection.Grid({option}={value})"
CROSS_VALIDATE = {
    "term": "give weights=mc.selection.Grid(term=...)",
    "count": GRID,
    "ratio": GRID,
    "patience": GRID,
    "max_iter": "give max_seconds= as the limit, or path=, a function of (model, data,"
    " weights) such as one that calls mc.path(model, data, weights=weights, max_iter={value})",
    "effects_weight": "declare it in Block(effects_weight={value}), or give path=, a function of"
    " (model, data, weights) such as one that calls mc.path, which has effects as declared",
}
PATH = {option: CROSS_VALIDATE[option] for option in ("term", "count", "ratio")}

CLUSTER = {
    "client": "it is Dask's current client: with client.as_current(): ..., where client is a"
    " distributed.Client",
    "scratch": "temporary files are where Python's tempfile puts them: set the environment"
    " variable TMPDIR, and for workers of Dask its temporary-directory",
}
FIT = CLUSTER | {
    "force": "give backend=mc.Reference(force={value}), or mc.backends.Forced(...) of a solver",
}
POSTERIOR = CLUSTER
VERIFY = {
    "force": "give reference=mc.Reference(force={value})",
    "solver": "give reference=mc.Reference(solver={value})",
}


def without_former_options(
    successors: Mapping[str, str],
) -> Callable[[Callable[Options, ResultT]], Callable[Options, ResultT]]:
    """Return a decorator for a function that no longer has some options.

    ``successors`` has a sentence for each of them that names what to give instead, where
    ``{option}`` and ``{value}`` stand for what was given. Such a call raises a ``TypeError`` with
    the sentences of all former options in it.
    """

    def decorate(function: Callable[Options, ResultT]) -> Callable[Options, ResultT]:
        @wraps(function)
        def checked(*arguments: Options.args, **options: Options.kwargs) -> ResultT:
            former = {name: value for name, value in options.items() if name in successors}
            if former:
                sentences = [
                    f"no option {name} any more;"
                    f" {successors[name].format(option=name, value=repr(value))}"
                    for name, value in former.items()
                ]
                raise TypeError(f"{function.__name__}() has {'. It has '.join(sentences)}")
            return function(*arguments, **options)

        return checked

    return decorate
