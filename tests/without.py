"""Run core code where folders of the package cannot be imported.

``without.py FOLDERS ...`` prints for each of several lists of folders, with commas between them,
what had to go; ``without.py --tests FOLDERS TESTS ...`` runs tests.

The entry point ``mcframe/__init__.py`` is run statement by statement, and imports of what is
blocked, or of what needs it, are left out, as who deletes a folder would delete these lines.
"""

import ast
import importlib
import importlib.util
import json
import multiprocessing
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcframe"


class Blocked(ImportError):
    """A folder that is taken to be deleted was imported."""


class Blocker:
    """A finder that refuses some folders of the package."""

    def __init__(self, folders):
        self.folders = folders

    def find_spec(self, name, path=None, target=None):
        if name.startswith("mcframe.") and name.split(".")[1] in self.folders:
            raise Blocked(name)


def package_without(folders):
    """The package without folders, and the lines of its entry point that had to go."""
    sys.meta_path.insert(0, Blocker(folders))
    spec = importlib.util.spec_from_file_location(
        "mcframe", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    package, gone = importlib.util.module_from_spec(spec), []
    sys.modules["mcframe"] = package
    for statement in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        try:
            code = ast.Module([statement], type_ignores=[])
            exec(compile(code, spec.origin, "exec"), vars(package))
        except Blocked:
            gone.append(ast.unparse(statement))
    return package, gone


def run_core(mc):
    """A fit with a certificate, new rows, the comparison with CVXPY, and the laws."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.3)])
    fit = mc.fit(model, {"x": x})
    assert fit.status == "certified"
    assert fit.predict_rows("x", {"x": x[:2]}).shape == (2, 5)
    assert mc.fit(model, {"x": x}, backend="alternating").status == "certified"
    assert mc.explain(model, {"x": x}).chosen == "proximal"
    assert mc.verify(model, {"x": x}).agrees
    mc.laws.check_likelihood(mc.Gaussian())
    mc.laws.check_regularizer(mc.NuclearNorm(0.3))


def blocked(folders):
    """The package without folders that cannot be imported, and the lines that had to go."""
    mc, gone = package_without(set(folders.split(",")))
    for folder in folders.split(","):
        try:
            importlib.import_module(f"mcframe.{folder}")
        except Blocked:
            continue
        raise AssertionError(f"{folder} is not blocked")
    return mc, gone


def lines_without(folders):
    """The lines of the entry point that go with these folders."""
    mc, gone = blocked(folders)
    run_core(mc)
    loaded = {name.split(".")[1] for name in sys.modules if name.startswith("mcframe.")}
    assert not loaded & set(folders.split(","))
    return gone


def main(*arguments):
    if arguments[0] == "--tests":
        import pytest

        blocked(arguments[1])
        return pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", *arguments[2:]])
    # Copies of this process have what takes long to import, and nothing of the package.
    for module in ("numba", "cvxpy", "scipy.sparse"):
        importlib.import_module(module)
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        print(json.dumps(pool.map(lines_without, arguments, chunksize=1)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
