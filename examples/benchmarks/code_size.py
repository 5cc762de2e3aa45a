"""Measure how long the code of a package is, and how much of it one fit passes through.

    python examples/benchmarks/code_size.py [FOLDER]

Prints lines of code (without docstrings, comments and blank lines), files, functions, functions
of modules that are used once, modules with one importer, the files and functions that a fit and
``complete`` of a small table pass through, how often they bind a model to data, and the modules
and seconds of ``import mcframe``. ``tests/test_size.py`` holds limits of them.
"""

import ast
import collections
import io
import pathlib
import subprocess
import sys
import tokenize

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# A process of its own: what it prints last is files, functions and bindings.
WALK = """
import sys, numpy as np, pandas as pd, mcframe as mc
from mcframe.{binding} import Problem
rng = np.random.default_rng(0)
values = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 12))
values[rng.random((40, 12)) < 0.3] = np.nan
frame = pd.DataFrame(values, columns=[f"c{{j}}" for j in range(12)])
model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])
files, functions, bindings = set(), set(), [0]
root = mc.__file__.rpartition("/")[0]
bind = Problem.bind.__func__.__code__
def note(here, event, _):
    code = here.f_code
    if event == "call" and code.co_filename.startswith(root):
        files.add(code.co_filename)
        functions.add((code.co_filename, code.co_firstlineno))
        bindings[0] += code is bind
work = {work}
sys.setprofile(note)
work()
sys.setprofile(None)
print(len(files), len(functions), bindings[0])
"""


def lines_of_code(path):
    """Lines of a file that are neither docstring nor comment nor blank."""
    text = path.read_text()
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) and ast.get_docstring(node):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def python_files(folder):
    """All files of a package, in the order of their names."""
    return sorted(pathlib.Path(folder).rglob("*.py"))


def functions_of(tree):
    """All functions and methods of a file."""
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]


def uses_of_names(trees):
    """How often each name is read or set, alone or as an attribute."""
    uses = collections.Counter()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
    return uses


def used_once(trees):
    """Functions at the top of a module that are used once, and the number of all of these."""
    uses = uses_of_names(trees)
    functions = [
        node for tree in trees.values() for node in tree.body if isinstance(node, FUNCTION)
    ]
    return [node for node in functions if uses[node.name] == 1], len(functions)


def short_helpers(trees, most_lines=4):
    """The names of functions that are used once and have few lines below their docstring."""
    names = []
    for node in used_once(trees)[0]:
        first = node.body[bool(ast.get_docstring(node)) :][:1]
        if first and node.body[-1].end_lineno - first[0].lineno < most_lines:
            names.append(node.name)
    return names


def with_one_importer(folder, trees):
    """Number of modules that exactly one other module imports."""
    importers = collections.defaultdict(set)
    package = pathlib.Path(folder).name
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
                importers[node.module].add(path)
                for alias in node.names:
                    importers[f"{node.module}.{alias.name}"].add(path)
    modules = (
        ".".join([package, *path.relative_to(folder).with_suffix("").parts])
        for path in trees
        if path.stem not in ("__init__", "__main__")
    )
    return sum(len(importers[module]) == 1 for module in modules)


def class_names(trees):
    """Names of classes that more than one module defines, with these modules."""
    places = collections.defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def parse(folder):
    """The syntax trees of a package's files by their paths."""
    return {path: ast.parse(path.read_text()) for path in python_files(folder)}


def walk(work, binding="model.problem"):
    """Number of files and of functions that some work calls, and of bindings of models to data."""
    code = WALK.format(work=work, binding=binding)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(int, out.stdout.split()[-3:]))


def import_cost(package):
    """Modules that an import loads, and the median of its seconds."""
    code = (
        "import sys, time; begin = time.perf_counter(); before = len(sys.modules);"
        f"import {package}; print(len(sys.modules) - before, time.perf_counter() - begin)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    found = sorted((float(run.stdout.split()[1]), int(run.stdout.split()[0])) for run in runs)
    return found[2][1], found[2][0]


def main():
    """Print the table of one package."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "mcframe")
    trees = parse(folder)
    functions = [node for tree in trees.values() for node in functions_of(tree)]
    single = sum(
        isinstance(node.body[-1], ast.Return)
        and len(node.body) - bool(ast.get_docstring(node)) == 1
        for node in functions
    )
    once, n_top = used_once(trees)
    modules, seconds = import_cost(folder.name)
    rows = [
        ("lines of code", sum(map(lines_of_code, trees))),
        ("files", len(trees)),
        ("functions and methods", len(functions)),
        ("of these a single return", single),
        ("functions of modules used once", f"{len(once)} of {n_top}"),
        ("of these of at most four lines", len(short_helpers(trees))),
        ("modules with one importer", with_one_importer(folder, trees)),
        ("class names in several modules", len(class_names(trees))),
        ("modules and seconds of import", f"{modules}, {seconds:.2f}"),
    ]
    for name, work in (
        ("fit", "lambda: mc.fit(model, {'x': values})"),
        ("complete", "lambda: mc.complete(frame)"),
    ):
        files, passed, bindings = walk(work)
        rows.append((f"{name}: files, functions, bindings", f"{files}, {passed}, {bindings}"))
    for name, value in rows:
        print(f"{name:36s} {value}")


if __name__ == "__main__":
    main()
