"""The register of tuned numbers, and what happens when each of them is halved or doubled.

    python examples/benchmarks/constants.py list
    python examples/benchmarks/constants.py run [--only TEXT]
    python examples/benchmarks/constants.py page

A tuned number is a name in capitals that a module of the package sets to a number or to a tuple
of numbers. ``run`` changes one at a time in a set of small tasks (fits by every solver, paths,
posteriors, tables that are completed), and repeats those tasks in which a function that reads the
number is called. Numbers between one half and two, such as shares and factors of safety, have
their distance from one halved and doubled; whole numbers stay whole and at least one. Loops that
numba has compiled keep the numbers that they were compiled with, so that those of their modules
are listed and not changed. ``page`` writes the table of ``docs/constants.md`` from all lines.
A number is measured again where its value has changed or its line was removed.
"""

import argparse
import ast
import importlib
import json
import math
import pathlib
import re
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import record

import mcframe as mc
from mcframe.backends import eligibilities
from mcframe.compile import CompiledProblem
from mcframe.partitions.partitioned_data import RowsInMemory

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "mcframe"
REGISTER = pathlib.Path(__file__).with_name("constants.jsonl")
PAGE = ROOT / "docs" / "constants.md"
# Their numbers are sizes of texts and pictures, or values that laws try.
ELSEWHERE = ("commands", "datasets", "laws", "plots", "storage", "runtime", "loading.py")
COMPILERS = ("njit", "compiled", "vectorize", "guvectorize")
# No limit of seconds, which a busy machine would reach elsewhere.
OPTIONS = {"tol": 1e-6, "max_iter": 300, "random_state": 0, "n_jobs": 1, "progress": False}
# The number of tasks in which each function is called, if there are so many.
COVER = 3
# The most tasks that are repeated for a number, the cheapest first; the reference is a backend of
# these while there are fewer tasks than FEW.
MOST, FEW = 8, 20


# ------------------------------------------------------------------------------------- the numbers


@dataclass(frozen=True)
class Constant:
    """A number or a tuple of numbers of a module, and the first sentence of its comment."""

    module: str
    name: str
    value: int | float | tuple
    comment: str

    @property
    def key(self):
        """Its name with the module's, below the package's."""
        return f"{self.module.removeprefix('mcframe.')}.{self.name}"


def is_number(value):
    """True for a number that is no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_numeric(value):
    """True for a number and for a tuple of numbers that is not empty."""
    numbers = value if isinstance(value, tuple) else (value,)
    return bool(numbers) and all(map(is_number, numbers))


def comment_of(lines, node):
    """The comment above an assignment or behind it."""
    behind = lines[node.end_lineno - 1].partition("  # ")[2].strip()
    above, line = [], node.lineno - 2
    while line >= 0 and lines[line].startswith("#"):
        above.insert(0, lines[line].lstrip("#: ").strip())
        line -= 1
    return " ".join([*above, behind] if behind else above)


def names_of(node):
    """The names in capitals that a statement at the top of a module sets."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    else:
        return []
    names = [part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)]
    return [name for name in names if name.isupper()]


def module_files():
    """The files of the package by their modules' names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(("mcframe", *path.relative_to(PACKAGE).with_suffix("").parts)), path


def constants():
    """All tuned numbers of the package, in the order of the files."""
    found = []
    for module, path in module_files():
        if path.relative_to(PACKAGE).parts[0] in ELSEWHERE:
            continue
        text = path.read_text()
        for node in ast.parse(text).body:
            for name in names_of(node):
                value = getattr(importlib.import_module(module), name, None)
                if is_numeric(value):
                    comment = comment_of(text.splitlines(), node)
                    found.append(Constant(module, name, value, comment))
    return found


def changed(value, factor):
    """The number times the factor, or with its distance from one times the factor."""
    if isinstance(value, tuple):
        return tuple(changed(part, factor) for part in value)
    if isinstance(value, int):
        return max(1, round(value * factor)) if value > 0 else value
    if 0.5 < abs(value) < 2.0 and value != 1.0:
        return math.copysign(1.0 - (1.0 - abs(value)) * factor, value)
    return value * factor


# --------------------------------------------------------------------------- who reads the numbers


def places_of(path):
    """The functions of a file, by their first lines: the names that they read, and if compiled.

    And the names that the file imports, by the module that they come from.
    """
    tree, functions, imported = ast.parse(path.read_text()), {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcframe"):
            for alias in node.names:
                imported[alias.asname or alias.name] = (node.module, alias.name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            # Default values of arguments are bound when the module is imported.
            body = [part for statement in node.body for part in ast.walk(statement)]
            names = {part.id for part in body if isinstance(part, ast.Name)}
            names |= {part.attr for part in body if isinstance(part, ast.Attribute)}
            decorators = " ".join(ast.unparse(d) for d in node.decorator_list)
            functions[first] = (names, any(word in decorators for word in COMPILERS))
    return functions, imported


class Readers:
    """Which functions read a number, and in which modules its name stands."""

    def __init__(self):
        self.files = {module: (str(path), *places_of(path)) for module, path in module_files()}

    def homes(self, constant):
        """The modules that have the number under a name, with this name."""
        yield constant.module, constant.name
        for module, (_, _, imported) in self.files.items():
            for name, source in imported.items():
                if source == (constant.module, constant.name):
                    yield module, name

    def functions(self, constant):
        """The places of the functions that read it, and whether a compiled one is among them."""
        places, compiled = set(), False
        for module, name in self.homes(constant):
            path, functions, _ = self.files[module]
            # What such a module allocates must fit what its compiled loops were compiled with.
            compiled |= any(is_compiled for _, is_compiled in functions.values())
            places |= {(path, first) for first, (names, _) in functions.items() if name in names}
        return places, compiled


def put(readers, constant, value):
    """Set a number in all modules that have it."""
    for module, name in readers.homes(constant):
        setattr(importlib.import_module(module), name, value)


# --------------------------------------------------------------------------------------- the tasks


@dataclass
class Outcome:
    """What a task gives: numbers on the scale 1, how far they may differ, its status and work."""

    answers: np.ndarray
    exact: bool  # to the accuracy that a certificate states; otherwise any change is told
    status: str
    work: float
    seconds: float = 0.0


def fitted(model, data, **options):
    """A task: a fit, whose answer is its objective."""

    def run():
        fit = mc.fit(model, data, **OPTIONS | options)
        return Outcome(
            np.array([fit.objective]),
            True,
            str(fit.status),
            float(fit.history[-1].iteration),
        )

    return run


def of_posterior(model, data, **options):
    """A task: a posterior, whose answers are means and sds, in sds."""

    def run():
        answer = mc.posterior(model, data, random_state=0, progress=False, **options)
        means, sds = [], []
        for block in model.blocks:
            means.append(np.ravel(answer.predict(block.name)))
            sds.append(np.ravel(answer.sd(block.name)))
        numbers = np.concatenate([*means, *sds])
        spread = np.nanstd(numbers)
        return Outcome(numbers / spread, False, "answered", float(len(answer.history)))

    return run


def bent_frame(rows, seed):
    """Numbers of which two bend with others, with gaps."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((rows, 4)), columns=list("abcd"))
    frame["c"] = np.maximum(frame["a"], 0.0) + 0.3 * frame["c"]
    frame["d"] = frame["a"] * frame["b"] + 0.5 * frame["d"]
    return frame.mask(rng.random(frame.shape) < 0.15)


def cut_frame(n, seed):
    """Numbers of two factors, two of which are known up to an end alone."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 5))
    numbers += 0.3 * rng.standard_normal(numbers.shape)
    for column in (0, 3):
        numbers[numbers[:, column] > np.quantile(numbers[:, column], 0.7), column] = np.nan
    return pd.DataFrame(numbers, columns=list("abcde"))


def completed(frame, **options):
    """A task: a table that is filled, whose answers are the filled numbers and their sds."""

    def run():
        answer = mc.complete(frame, random_state=0, progress=False, **options)
        columns = []
        for filled in (answer.table, answer.sd):
            for name, series in filled.items():
                numbers = series if series.dtype.kind in "fiu" else pd.factorize(series)[0]
                scale = np.nanstd(pd.to_numeric(frame[name], errors="coerce"))
                scale = scale if np.isfinite(scale) and scale > 0.0 else 1.0
                columns.append(np.asarray(numbers, float) / scale)
        return Outcome(np.concatenate(columns), False, "filled", 0.0)

    return run


def drawn(frame, terms):
    """A task: draws of a table with terms of a regression, in standard deviations of columns."""

    def run():
        answer = mc.complete(frame, random_state=0, progress=False)
        draws = np.array([draw.to_numpy(float) for draw in answer.draws(20, 0, terms=terms)])
        spread = np.nanstd(frame.to_numpy(float), axis=0)
        return Outcome(np.ravel(draws.mean(axis=0) / spread), False, "drawn", 0.0)

    return run


def pathed(model, data, verb, **options):
    """A task: many fits, whose answers are their objectives or their scores."""

    def run():
        answer = verb(model, data, progress=False, **options)
        numbers = np.array([float(fit.objective) for fit in getattr(answer, "fits", [])])
        if hasattr(answer, "scores"):
            numbers = np.ravel(np.asarray(answer.scores, float))
        return Outcome(numbers, True, "done", 0.0)

    return run


def mixed_frame(rows, seed, pattern="anywhere"):
    """A table of numbers, labels, levels, classes and counts that depend on three factors."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, 9))
    noise = rng.standard_normal(z.shape)
    frame = pd.DataFrame((z + 0.5 * noise)[:, :4] * [1.0, 1e3, 1e-2, 5.0], columns=list("abcd"))
    frame["yes"] = np.where(z[:, 4] + noise[:, 4] > 0.0, "yes", "no")
    cut = pd.cut(z[:, 5] + 0.5 * noise[:, 5], [-np.inf, -1.0, 0.5, np.inf], labels=list("lmh"))
    frame["level"] = pd.Categorical(cut, list("lmh"), ordered=True)
    largest = np.argmax(z[:, 6:9] + noise[:, 6:9], axis=1)
    frame["class"] = np.array(["red", "green", "blue"])[largest]
    frame["count"] = rng.poisson(np.exp(0.4 * z[:, 4])).astype(float)
    gaps = rng.random(frame.shape) < 0.2
    if pattern == "together":
        gaps[:, 1:3] = gaps[:, [1]]
        gaps[:, 0] = rng.random(rows) < 1.0 / (1.0 + np.exp(-z[:, 3]))
    return frame.mask(gaps)


def skewed_frame(rows, seed):
    """A table of two clusters and of skewed numbers, a tenth missing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, 6))
    z += 4.0 * (rng.random(rows) < 0.4)[:, None]
    frame = pd.DataFrame(np.exp(0.5 * z), columns=list("uvwxyz"))
    return frame.mask(rng.random(frame.shape) < 0.1)


def low_rank(shape, rank, missing, seed, noise=0.3):
    """Numbers of low rank with noise; some are missing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    z += noise * rng.standard_normal(shape)
    return np.where(rng.random(shape) < missing, np.nan, z)


def tasks():
    """All tasks by their names."""
    made, seen = {}, set()
    for name, model, data in [*record.models_of_likelihoods(), *record.models_of_terms()]:
        kind = re.sub(r"\(.*\)", "", name)  # one instance of each word with the same effects
        if kind in seen:
            continue
        seen.add(kind)
        problem = mc.Problem.bind(model, data)
        able = [e.name for e in eligibilities(CompiledProblem(problem)) if e.can_run]
        plain = not any(block.bias or block.row_effects for block in model.blocks)
        # The reference is slow and not ours: a few fits by it reach what there is.
        chosen = [b for b in able if b != "reference" or len(made) < FEW] if plain else ["auto"]
        for backend in chosen:
            made[f"{name} | {backend}"] = fitted(model, data, backend=backend)
    x = mc.Block("x", mc.Gaussian())
    wide, large = low_rank((60, 40), 3, 0.4, 1), low_rank((400, 250), 4, 0.7, 2)
    counts = np.random.default_rng(3).poisson(np.exp(np.nan_to_num(wide) / 2)).astype(float)
    counts[np.isnan(wide)] = np.nan
    nuclear = mc.Model([x], [mc.NuclearNorm(3.0)])
    for backend in ("alternating", "proximal", "splitting", "factored"):
        made[f"large | {backend}"] = fitted(nuclear, {"x": large}, backend=backend)
    made["partitions"] = fitted(nuclear, RowsInMemory({"x": large}, 3))
    made["light weight"] = fitted(mc.Model([x], [mc.NuclearNorm(1e-3)]), {"x": wide}, tol=1e-9)
    for term in (mc.MaxNorm(3.0), mc.MaxNormBall(2.0), mc.NuclearBall(60.0)):
        made[f"wide {term}"] = fitted(mc.Model([x], [term]), {"x": wide})
    both_effects = mc.Block("x", mc.Poisson(), bias=True, row_effects=True)
    made["Poisson"] = fitted(mc.Model([both_effects], [mc.NuclearNorm(1.0)]), {"x": counts})
    made["path"] = pathed(nuclear, {"x": wide}, mc.path)
    made["cross_validate"] = pathed(nuclear, {"x": wide}, mc.cross_validate)
    labels = np.where(np.isnan(wide), np.nan, (np.nan_to_num(wide) > 0.0).astype(float))
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())]
    both = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    made["posterior numbers"] = of_posterior(nuclear, {"x": wide})
    made["posterior both"] = of_posterior(both, {"x": wide, "y": labels})
    made["posterior counts"] = of_posterior(
        mc.Model([mc.Block("x", mc.Poisson(), bias=True)], [mc.NuclearNorm(1.0)]), {"x": counts}
    )
    below = mc.Observations(
        np.where(wide > -0.5, wide, np.nan), upper=np.where(wide > -0.5, np.nan, -0.5)
    )
    limits = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian()))], [mc.NuclearNorm(1.0)])
    made["limits"] = fitted(limits, {"x": below})
    made["posterior limits"] = of_posterior(limits, {"x": below})
    small = low_rank((24, 8), 2, 0.3, 5)
    labels = np.where(np.isnan(small), np.nan, (np.nan_to_num(small) > 0.0).astype(float))
    made["small posterior"] = of_posterior(both, {"x": small, "y": labels}, factors=2)
    squares = pd.DataFrame({"a": wide[:, 0], "b": wide[:, 1]})
    squares["c"] = squares["b"] + np.square(squares["a"])
    made["draws with a square"] = drawn(squares, ["I(a**2)"])
    made["table of 150"] = completed(mixed_frame(150, 0))
    made["table of 60"] = completed(mixed_frame(60, 1))
    made["table with gaps together"] = completed(mixed_frame(150, 2, "together"))
    made["table of clusters"] = completed(skewed_frame(200, 3))
    made["table of groups"] = completed(mixed_frame(150, 5), groups=np.arange(150) % 12)
    made["table that bends"] = completed(bent_frame(400, 6))
    made["table cut off"] = completed(cut_frame(400, 7), nonlinear=False)
    made["wide table"] = completed(pd.DataFrame(low_rank((30, 160), 3, 0.2, 4)))
    return made


def timed(task):
    """The outcome of a task, and its CPU seconds; an error is a status."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = task()
    except Exception as error:  # whatever a number out of place leads to is what is looked for
        outcome = Outcome(np.zeros(0), True, f"{type(error).__name__}: {error}"[:120], 0.0)
    outcome.seconds = time.process_time() - start
    return outcome


def called_by(task):
    """The places of all functions of the package that a task calls."""
    places = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            places.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        timed(task)
    finally:
        sys.setprofile(None)
    return places


def cover(called, seconds):
    """The cheapest tasks by which each function is called ``COVER`` times, if by so many."""
    count, kept = {}, []
    for name in sorted(called, key=seconds.__getitem__):
        if any(count.get(place, 0) < COVER for place in called[name]):
            kept.append(name)
            for place in called[name]:
                count[place] = count.get(place, 0) + 1
    return kept


# --------------------------------------------------------------------------------- the comparison


def compared(before, after):
    """The effects of a change on some tasks: what is lost, and how much more there is to do."""
    lost, moved, beyond = [], 0.0, 0.0
    for name, old in before.items():
        new = after[name]
        if new.status != old.status:
            lost.append(f"{name}: {old.status} -> {new.status}")
            continue
        if new.answers.shape != old.answers.shape:
            lost.append(f"{name}: other answers")
            continue
        difference = np.abs(new.answers - old.answers)
        size = np.maximum(np.abs(old.answers), 1e-300) if old.exact else 1.0
        relative = difference / size
        relative = relative[np.isfinite(relative)]
        if old.exact:
            beyond = max(beyond, float(relative.max(initial=0.0)))
        elif relative.size:
            moved = max(moved, float(np.sqrt(np.mean(relative**2))))
    iterations = [sum(o.work for o in side.values()) for side in (before, after)]
    return {
        "lost": lost,
        "objectives": beyond,
        "answers": moved,
        "iterations": iterations[1] / iterations[0] if iterations[0] else 1.0,
    }


def run(only):
    """Change each number, and write a line for it; lines of a run that was cut off stay."""
    readers, made = Readers(), tasks()
    print(f"{len(made)} tasks", flush=True)
    called = {name: called_by(task) for name, task in made.items()}
    seconds = {name: timed(task).seconds for name, task in made.items()}  # all is compiled now
    kept = cover(called, seconds)
    print(f"{len(made)} tasks, {len(kept)} kept, {sum(seconds[k] for k in kept):.1f} CPU s")
    before = {name: timed(made[name]) for name in kept}
    written = {(line["key"], shown(line["value"])) for line in lines() if "tasks" in line}
    with REGISTER.open("a") as file:
        for constant in constants():
            if only not in constant.key or (constant.key, shown(constant.value)) in written:
                continue
            line = {"key": constant.key, "value": constant.value, "comment": constant.comment}
            places, compiled = readers.functions(constant)
            names = [name for name in kept if places & called[name]][:MOST]
            line["tasks"] = len(names)
            if compiled:
                line["compiled"] = True
            elif names:
                old = {name: before[name] for name in names}
                for word, factor in (("half", 0.5), ("double", 2.0)):
                    value = changed(constant.value, factor)
                    if value == constant.value:
                        continue
                    put(readers, constant, value)
                    try:
                        new = {name: timed(made[name]) for name in names}
                    finally:
                        put(readers, constant, constant.value)
                    line[word] = compared(old, new)
            file.write(json.dumps(line) + "\n")
            file.flush()


# --------------------------------------------------------------------------------------- the page


def lines():
    """The lines of the register."""
    return [json.loads(line) for line in REGISTER.read_text().splitlines()]


def shown(value):
    """A number or a tuple of numbers as text."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def effect(change):
    """What a change does, in a few words."""
    words = []
    if change["lost"]:
        words.append(f"{len(change['lost'])} of the tasks end otherwise")
    if change["objectives"] > 1e-5:
        words.append(f"objectives {change['objectives']:.0e}")
    if change["answers"] > 1e-6:
        words.append(f"answers {100.0 * change['answers']:.2g} %")
    if not 0.95 < change["iterations"] < 1.05:
        words.append(f"iterations x {change['iterations']:.2f}")
    return ", ".join(words) or "none"


def first_sentence(text):
    """A comment up to its first full stop."""
    return text.partition(". ")[0].rstrip(".").replace("|", "\\|")


def table():
    """The table of the page."""
    rows = ["| number | value | what it is for | halved | doubled |", "|---|---|---|---|---|"]
    for line in lines():
        half, double = (
            effect(line[w]) if w in line else "not changed" for w in ("half", "double")
        )
        if line.get("compiled"):
            half = double = "compiled in"
        elif "tasks" not in line:
            half = double = "not run"
        elif not line["tasks"]:
            half = double = "not reached"
        name = f"`{line['key']}`"
        what = first_sentence(line["comment"])
        rows.append(f"| {name} | {shown(line['value'])} | {what} | {half} | {double} |")
    return "\n".join(rows)


def follow_the_code():
    """Put the register in the order of the code: its names and comments, and no others.

    A number without a line of this value gets one that says nothing of effects.
    """
    measured = {(line["key"], shown(line["value"])): line for line in lines()}
    with REGISTER.open("w") as file:
        for constant in constants():
            line = measured.get((constant.key, shown(constant.value)), {})
            facts = {"key": constant.key, "value": constant.value, "comment": constant.comment}
            file.write(json.dumps({**line, **facts}) + "\n")


def page():
    """Write the table into the page."""
    follow_the_code()
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition("<!-- register -->\n")
    PAGE.write_text(f"{head}{mark}\n{table()}\n", encoding="utf-8")


def main():
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("--only", default="", help="numbers whose name holds this text")
    commands.add_parser("page")
    options = parser.parse_args()
    if options.command == "list":
        for constant in constants():
            print(constant.key, shown(constant.value), "|", first_sentence(constant.comment))
    elif options.command == "run":
        run(options.only)
    else:
        page()


if __name__ == "__main__":
    main()
