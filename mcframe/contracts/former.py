"""Options and names that were there once, each with a sentence that names its successor.

``without_former_options`` of ``mcframe.contracts.validators`` puts them into messages.
"""

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

# Names of ``mcframe.datasets``.
MULAN = "it is in examples/papers/mulan.py of the repository, which reads ARFF, Mulan and OpenML"
DATASETS = {
    "read_mulan": MULAN,
    "fetch_multilabel": MULAN,
    "ParquetTriples": "it is what parquet_triples returns, and made by it alone",
}
