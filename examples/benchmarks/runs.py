"""The runs of a comparison: a line of a file each, as soon as it is done."""

import itertools
import json
import time

__all__ = ["Runs", "seeds_of"]


class Runs:
    """What was run, in ``runs.jsonl`` of a folder.

    Parameters
    ----------
    folder : Path
        Made where it is absent.
    keys : names of what identifies a run
    again : bool
        Whether runs of earlier calls count as not run. Of equal ones the last is reported.
    """

    def __init__(self, folder, keys, again=False):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.keys = folder, keys
        self.known = {} if again else {self.key(run): run for run in self.latest()}

    @property
    def path(self):
        """The file."""
        return self.folder / "runs.jsonl"

    def key(self, run):
        """What identifies a run."""
        return tuple(run[key] for key in self.keys)

    def __contains__(self, run):
        return self.key(run) in self.known

    def get(self, run):
        """The run of earlier calls with the key of this one, None where there is none."""
        return self.known.get(self.key(run))

    def add(self, run):
        """Write a run, and print it."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
        told = run.get("failed", f"{run.get('seconds', 0.0):.2f} s")
        print(", ".join(map(str, self.key(run))) + f": {told}", flush=True)

    def take_turns(self, shapes, methods, measured, seconds, first_seed):
        """Measure shapes and methods in turn, a seed each, until the seconds are over.

        ``measured(shape, method, seed)`` is a dict.
        """
        end, seed = time.time() + seconds, first_seed
        while time.time() < end:
            for shape, method in itertools.product(shapes, methods):
                key = {"shape": shape, "method": method, "seed": seed}
                if key in self:
                    continue
                if time.time() > end:
                    return
                began = time.process_time()
                values = measured(shape, method, seed)
                self.add(key | values | {"seconds": time.process_time() - began})
            seed += 1

    def latest(self):
        """All runs of the file, of equal ones the last."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return list({self.key(run): run for run in map(json.loads, lines)}.values())

    def write_table(self, lines):
        """Write and print ``table.md``."""
        text = "\n".join(lines)
        (self.folder / "table.md").write_text(text + "\n", encoding="utf-8")
        print(text)


def seeds_of(runs):
    """The seeds of some runs, in words."""
    seeds = sorted({run["seed"] for run in runs})
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
