"""Ways to fill tables of any columns, by their error at hidden entries and by their time.

    python examples/benchmarks/imputation.py [--tables iris wine ...] [--seeds 0 1 2 3 4]
        [--methods mc.complete missForest ...] [--python gcimpute=/path/to/python ...]
        [--set-aside] [--again] [--page [PART]] [--out DIR]

Each run is a line of ``runs.jsonl`` as soon as it is done; ``table.md``, of the shares and seeds
that were asked for, is written at the end. In a folder that holds runs already, what was run there
is not run again. What is measured stands in the README of this folder.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import imputation_report
import numpy as np
from compare import looked_up, machine, with_interpreters
from hidden_tables import masked
from imputation_scores import column_scores
from imputers import METHODS
from mixed_tables import QUICK, SET_ASIDE, TABLES, table
from pages import DOCUMENT, add_page, write_part
from runs import Runs

HERE = pathlib.Path(__file__).parent
SHARES = (0.1, 0.3, 0.5)


def run_once(chosen, interpreter, whole, given, max_seconds):
    """A method on one masked table, in a process of its own: seconds and columns, or why not."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        given.save(folder / "given.npz")
        command = [interpreter, HERE / "impute_once.py", chosen.name]
        command += [folder / "given.npz", folder / "filled.npz", max_seconds]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode == -signal.SIGXCPU:
            return {"failed": f"not done after {max_seconds:g} s", "limit": max_seconds}
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return {"failed": lines[-1][:200]}
        with np.load(folder / "filled.npz") as file:
            codes, seconds = file["codes"], float(file["seconds"])
    try:
        return {"seconds": seconds, "columns": column_scores(whole, given, codes)}
    except ValueError as error:
        return {"failed": str(error)}


def is_done(run, max_seconds):
    """Whether a run need not be tried again: it was done, or given at least as much time."""
    return run is not None and ("failed" not in run or run.get("limit", 0.0) >= max_seconds)


def methods_present(options, interpreters):
    """The chosen methods that can run, versions by package, and why others cannot."""
    chosen = [m for m in METHODS if not options.methods or m.name in options.methods]
    versions, absent, present = {}, {}, []
    for method in chosen:
        version, reason = looked_up(
            method.package, interpreters.get(method.package, sys.executable)
        )
        if reason is None:
            versions[method.package] = version
            present.append(method)
        else:
            absent[method.name] = reason
    return present, versions, absent


def cells(options):
    """The table, whole and masked, of every seed, table and share, seed by seed."""
    wholes, absent = {}, {}
    for name in options.tables:
        try:
            wholes[name] = table(name)
        except ImportError as error:
            absent[name] = str(error)
            print(f"{name}: absent: {error}", flush=True)
    for seed in options.seeds:
        for whole in wholes.values():
            for share in options.shares:
                yield seed, share, whole, masked(whole, share, seed)


def parsed(arguments):
    """The options, and the interpreters by package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=[m.name for m in METHODS])
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--shares", nargs="+", type=float)
    parser.add_argument(
        "--max-seconds", type=float, default=300.0, help="of the processor, for a run"
    )
    parser.add_argument(
        "--set-aside",
        action="store_true",
        help="run mcframe, too, on the tables that are set aside until it is finished",
    )
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    add_page(parser, "imputation")
    parser.add_argument("--quick", action="store_true", help="two tables, one share, one seed")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("imputation-results"))
    options, interpreters = with_interpreters(parser, arguments)
    options.tables = options.tables or (QUICK if options.quick else TABLES)
    options.seeds = options.seeds or ([0] if options.quick else range(5))
    options.shares = options.shares or ((0.3,) if options.quick else SHARES)
    return options, interpreters


def main(arguments=None):
    """Run what has not been run, then write the report."""
    options, interpreters = parsed(arguments)
    runs = Runs(options.out, imputation_report.KEYS, options.again)
    present, versions, absent = methods_present(options, interpreters)
    stored = options.out / "about.json"
    about = json.loads(stored.read_text()) if stored.exists() else {"versions": {}}
    about |= {"machine": machine(), "versions": about["versions"] | versions, "absent": absent}
    stored.write_text(json.dumps(about, indent=1))
    for seed, share, whole, given in cells(options):
        for chosen in present:
            if chosen.ours and whole.name in SET_ASIDE and not options.set_aside:
                continue
            run = {"table": whole.name, "share": share, "seed": seed, "method": chosen.name}
            if not is_done(runs.get(run), options.max_seconds):
                interpreter = interpreters.get(chosen.package, sys.executable)
                runs.add(run | run_once(chosen, interpreter, whole, given, options.max_seconds))
    asked = [
        run
        for run in runs.latest()
        if run["share"] in options.shares and run["seed"] in options.seeds
    ]
    lines = imputation_report.lines(asked, about)
    runs.write_table(lines)
    if options.page:
        write_part(DOCUMENT, options.page, lines)


if __name__ == "__main__":
    main()
