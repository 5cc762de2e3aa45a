"""One measured run, in a process of its own: time, trace, peak memory, answer.

    python measure.py METHOD INSTANCE.npz OUT [--iterations N] [--rank K] ...

Imports, a run on a tiny instance of the same kind, and one iteration of the real one come before
the clock starts, for every method alike: what they compile, load and allocate is paid by then.
"""

import argparse
import json
import pathlib
from dataclasses import replace

import numpy as np
import problems
from memory import peak_megabytes
from methods import Clock, Task
from peers import method


def warm_up(chosen, task):
    """A tiny instance of the kind, then one iteration of this one."""
    tiny = problems.instance(task.instance.name, quick=True)
    chosen.solve(
        replace(task, instance=tiny, rank=2, goal=0.0, iterations=task.iterations or 20), Clock()
    )
    if chosen.stoppable:
        chosen.solve(replace(task, iterations=1), Clock())


def main():
    """Warm up, run, write OUT.npz and OUT.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method")
    parser.add_argument("instance", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--goal", type=float, default=0.0)
    parser.add_argument("--max-seconds", type=float, default=600.0)
    parser.add_argument("--program", default="Rscript")
    options = vars(parser.parse_args())
    name, out = options.pop("method"), options.pop("out")
    task = Task(**{**options, "instance": problems.Instance.load(options["instance"])})
    chosen = method(name, task.instance)
    warm_up(chosen, task)
    clock = Clock()
    answer = chosen.solve(task, clock)
    peak = peak_megabytes() if answer.peak_mb is None else answer.peak_mb
    arrays = {"left": answer.left, "right": answer.right, "predicted": answer.predicted}
    arrays |= {f"biases {block}": value for block, value in answer.biases.items()}
    np.savez(out.with_suffix(".npz"), **{k: v for k, v in arrays.items() if v is not None})
    report = {"seconds": clock.seconds, "peak_mb": peak, "trace": clock.trace}
    out.with_suffix(".json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
