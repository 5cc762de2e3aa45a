"""Compiled partitions that do not fit into memory: in a file, the same to the last bit."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.executor import OneByOne, PartCache, StoredPart
from mcframe.partitions.part import ARRAYS_KEPT, BYTES_PER_ENTRY, Part, Source
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.runtime import machine as memory
from mcframe.runtime.scratch import Scratch, packed

from .test_partitions import bits_of_fit, classes_of, model_of, table

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def data_of(kind="gaussian", n_partitions=3):
    return RowsInMemory({"x": table(kind)}, n_partitions)


def fitted(model, data, most, scratch):
    with closing(OneByOne(Source(data, model), PartCache(most, scratch))) as executor:
        return bits_of_fit(model, data, executor)


def weighted_blocks():
    x, y = table("gaussian"), table("bernoulli", seed=1, n_columns=5)
    weights = sp.csr_array(
        (np.random.default_rng(2).uniform(0.5, 2.0, x.nnz), x.indices, x.indptr)
    )
    days = np.random.default_rng(1).uniform(1.0, 9.0, (x.shape[0], 1))
    blocks = [
        mc.Block("x", mc.Gaussian(), bias=True),
        mc.Block("y", mc.Bernoulli(), row_effects=True, effects_weight=0.1),
        mc.Block("n", mc.Poisson()),
    ]
    counts = mc.Observations(table("poisson", n_columns=4), exposure=days)
    data = {"x": mc.Observations(x, weights=weights), "y": y, "n": counts}
    return mc.Model(blocks, [mc.NuclearNorm(3.0)]), RowsInMemory(data, 3)


CASES = {
    "biases": lambda: (model_of("bernoulli", "biases"), data_of("bernoulli")),
    "effects of rows": lambda: (model_of("gaussian", "effects of rows"), data_of()),
    "blocks with weights and exposures": weighted_blocks,
    "partitions of one row": lambda: (
        mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)]),
        RowsInMemory({"x": table("gaussian", n_rows=6, n_columns=4)}, 6),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.some(0.7, case=2)
def test_parts_on_the_disk_change_no_bit(case):
    model, data = CASES[case]()
    assert fitted(model, data, np.inf, None) == fitted(model, data, 0, Scratch())


class Watched(Scratch):
    """A file that remembers what was put into it as arrays of parts."""

    def put(self, found, spare, ahead=0):
        place = super().put(found, spare, ahead)
        written.append((place, self.digest(place)))
        return place

    def digest(self, place):
        self.file.seek(place.start)
        return hashlib.blake2b(self.file.read(place.spare)).hexdigest()

    def close(self):
        if self.file is not None:
            found.extend((self.digest(place), digest) for place, digest in written)
        super().close()


written, found = [], []


@pytest.mark.parametrize("case", CASES)
@pytest.mark.some(0.4, case=2)
def test_nobody_writes_into_the_arrays_of_a_part(case):
    model, data = CASES[case]()
    written.clear()
    found.clear()
    fitted(model, data, 0, Watched())
    assert len(found) == data.n_partitions
    assert all(after == before for after, before in found)


def bound_part(data, model):
    executor = OneByOne(Source(data, model))
    bound = bind_partitions(model, executor)[0].partitions
    return bound.source, bound.kept.parts[0]


def test_a_part_takes_the_bytes_that_are_said():
    x = table("gaussian", n_rows=2000, n_columns=20, share=0.5)
    source, part = bound_part(RowsInMemory({"x": x}), model_of("gaussian", "biases"))
    assert "tables" not in part.__dict__, "they were forgotten"
    per_entry = packed(part.program, source.words).n_bytes / x.nnz + 8 * ARRAYS_KEPT
    assert per_entry == pytest.approx(BYTES_PER_ENTRY, abs=2.0)


def beside_values():
    """Values, labels, counts and classes of as many rows, and a number above 0 for each entry."""
    size = {"n_rows": 2000, "n_columns": 20, "share": 0.5}
    kinds = {kind: table(kind, **size) for kind in ("gaussian", "bernoulli", "poisson")}
    kinds["classes"] = classes_of(2000, 20, 4, 0.5)
    numbers = np.random.default_rng(0).uniform(0.5, 2.0, (2000, 20))
    return kinds, numbers


def sizes():
    """Blocks of which entries take other bytes than one of one number alone."""
    kinds, numbers = beside_values()
    gaussian, classes = mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Multinomial(4), bias=True)
    labels, counts = mc.Block("x", mc.Bernoulli(), bias=True), mc.Block("x", mc.Poisson())
    x, y, both = kinds["gaussian"], kinds["classes"], {"weights": numbers, "offset": numbers}
    yield [gaussian], {"x": mc.Observations(x, **both)}
    yield [labels], {"x": mc.Observations(kinds["bernoulli"], **both)}
    yield [counts], {"x": mc.Observations(kinds["poisson"], exposure=numbers)}
    yield [mc.Block("x", mc.Gaussian(), standardize=True)], {"x": x}
    yield [classes], {"y": y}
    yield [mc.Block("y", mc.Multinomial(4))], {"y": mc.Observations(y, weights=numbers)}
    yield [gaussian, classes], {"x": x, "y": y}


@pytest.mark.parametrize("case", range(7))
def test_explain_tells_what_parts_take_of_classes_weights_and_offsets(case):
    blocks, given = list(sizes())[case]
    model, data = mc.Model(blocks, [mc.NuclearNorm(20.0)]), RowsInMemory(given, 2)
    source, part = bound_part(data, model)
    took = packed(part.program, source.words).n_bytes + 8 * ARRAYS_KEPT * part.program.entries.size
    told = mc.explain(model, data).partition_bytes[0]
    assert told == pytest.approx(took, abs=2.0 * data.n_entries(0))
    assert told <= mc.explain(model, Silent(data)).partition_bytes[0]


class Silent:
    """The rows of another one, which says no more than it has to."""

    def __init__(self, data):
        names = ("n_partitions", "n_items", "blocks", "fingerprint", "shape", "rows", "n_entries")
        self.__dict__.update({name: getattr(data, name) for name in names})

    def part(self, p):
        raise AssertionError("it was read")

    rows = n_entries = fingerprint = None  # what a class has to have to be partitions


def test_room_is_asked_for_all_classes_of_the_parts_ahead():
    class Asked(Scratch):
        def put(self, found, spare, ahead=0):
            asked.append((found.n_bytes + spare, ahead))
            return super().put(found, spare, ahead)

    asked = []
    model = mc.Model([mc.Block("y", mc.Multinomial(4))], [mc.NuclearNorm(20.0)])
    data = RowsInMemory({"y": classes_of(600, 20, 4)}, 3)
    with closing(OneByOne(Source(data, model), PartCache(0, Asked()))) as executor:
        bind_partitions(model, executor)
    for (_, ahead), (after, further) in pairwise(asked):
        assert ahead == pytest.approx(after + further, rel=0.02)
    assert len(asked) == 3


@pytest.mark.parametrize("share", [0.0, 0.5, 1.4, np.inf])
def test_tables_are_read_once_where_they_find_room_until_they_are_compiled(share):
    """``share`` of all compiled partitions stays in memory; tables take 24 bytes an entry."""

    class Counted(RowsInMemory):
        def part(self, p):
            read.append(p)
            assert kept.held_bytes + kept.table_bytes <= kept.max_bytes
            return super().part(p)

    x, read = table("gaussian"), []
    model = mc.Model(
        [mc.Block("x", mc.Huber(), bias=True, standardize=True)], [mc.NuclearNorm(2.0)]
    )
    kept = PartCache(share * BYTES_PER_ENTRY * x.nnz, Scratch())
    with closing(OneByOne(Source(Counted({"x": x}, 4), model), kept)) as executor:
        bind_partitions(model, executor)
        rounds = executor.work.rounds
        assert len(kept.parts) + len(kept.stored) == 4
        assert (
            kept.table_bytes == 24 * sum(own["x"].n_entries for own in kept.tables.values()) == 0
        )
    assert not kept.tables
    if share == np.inf:
        assert sorted(read) == [0, 1, 2, 3]
    elif share == 0.0:
        assert len(read) == 4 * (rounds + 1) > 100  # and compiled in one
    else:
        assert read.count(0) == 1


def test_tables_of_other_data_are_read():
    """What is kept of one source is not taken for that of the next."""
    kept = PartCache()
    for seed in (0, 1):
        x = table("gaussian", seed=seed)
        source = Source(RowsInMemory({"x": x}, 2), model_of("gaussian"))
        with kept.borrowed(source, 0) as part:
            np.testing.assert_array_equal(part.tables["x"].values, x[:24].data)
        assert list(kept.tables) == [0]
        with kept.borrowed(source, 0) as again:
            assert again.tables is part.tables


def test_numbers_at_entries_outlive_a_round():
    """Gradients are found once, and not again in each round of a certificate."""
    finds, model, data = [], model_of("gaussian"), data_of()
    for most, scratch in ((np.inf, None), (0, Scratch())):
        count, before = [], Part.entry_values

        def numbers(self, wanted, count=count, before=before):
            count.append(wanted.key not in self.kept)
            return before(self, wanted)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Part, "entry_values", numbers)
            fitted(model, data, most, scratch)
        finds.append(sum(count))
    assert finds[0] == finds[1] < len(count) / 2


def test_words_of_the_model_are_not_stored_with_its_parts():
    class Own(mc.Gaussian):
        """A likelihood that cannot be pickled, since nobody can import it."""

    model = mc.Model([mc.Block("x", Own(), bias=True)], [mc.NuclearNorm(3.0)])
    same = model_of("gaussian", "biases")
    # Objectives alone: seeds are drawn from the data, and so are the same, too.
    assert fitted(model, data_of(), 0, Scratch()) == fitted(same, data_of(), np.inf, None)


def test_an_interrupt_while_numbers_are_written_leaves_no_wrong_ones(monkeypatch):
    """Each is found anew that has no place of its own; none is taken for another one."""
    with closing(Scratch()) as scratch:
        source, part = bound_part(data_of(n_partitions=1), model_of("gaussian"))
        size = part.program.entries.size
        place = scratch.put(packed(part.program, source.words), spare=8 * ARRAYS_KEPT * size)
        stored = StoredPart(scratch, 0, place)
        part.kept = {f"old {k}": np.full(size, float(k)) for k in range(ARRAYS_KEPT)}
        stored.keep(part)
        part.kept = {"old 3": part.kept["old 3"], "new": np.full(size, 9.0), "cut": np.zeros(size)}
        write = StoredPart.write

        def write_and_stop(self, slot, numbers):
            write(self, slot, numbers)
            if not numbers.any():
                raise KeyboardInterrupt

        monkeypatch.setattr(StoredPart, "write", write_and_stop)
        with pytest.raises(KeyboardInterrupt):
            stored.keep(part)
        kept = stored.part(source).kept
        assert {key: set(numbers) for key, numbers in kept.items()} == {
            "old 3": {3.0},
            "new": {9.0},
        }


def open_in(folder):
    """The files without a name that this process has open in a folder."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(link))
        except OSError:  # the one that lists them
            continue
    return [link for link in links if link.startswith(str(folder))]


@LINUX
@pytest.mark.parametrize("end", ["certified", "error", "interrupted"])
def test_the_folder_is_empty_when_the_fit_has_ended(end, tmp_path, monkeypatch):
    monkeypatch.setattr("mcframe.partitions.fit_partitions.COMPILED_MEMORY_SHARE", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def look(record):
        seen.append((open_in(tmp_path), list(tmp_path.iterdir())))
        if end == "error":
            raise RuntimeError("it fails")
        if end == "interrupted":
            raise KeyboardInterrupt

    def fit():
        model = model_of("gaussian", "biases")
        return mc.fit(model, data_of(), tol=1e-4, callback=look)

    if end == "certified":
        assert fit().status == "certified"
    elif end == "error":
        with pytest.raises(RuntimeError, match="it fails"):
            fit()
    else:
        with pytest.warns(mc.NotCertifiedWarning):
            assert fit().status == "interrupted"
    assert len(seen[0][0]) == 1, "one file"
    assert seen[0][1] == [], "without a name"
    assert open_in(tmp_path) == []


def test_a_fit_keeps_no_part_and_can_be_asked_still():
    model, data = model_of("gaussian", "biases"), data_of()
    fit = mc.fit(model, data, tol=1e-4)
    executor = fit.problem.partitions
    assert not executor.kept.parts
    assert fit.problem.objective(fit.latent, fit.effects) == fit.objective
    assert not executor.kept.parts


def test_a_folder_that_is_none_is_refused_before_any_work(tmp_path, monkeypatch):
    class Unread(RowsInMemory):
        def part(self, p):
            raise AssertionError("it was read")

    data = Unread({"x": table("gaussian")}, 2)
    (tmp_path / "notes.txt").write_text("a file")
    for name, reason in (("missing", "No such file"), ("notes.txt", "Not a dir")):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        with pytest.raises(mc.BackendError, match=rf"{name}' \({reason}.*TMPDIR"):
            mc.fit(model_of("gaussian"), data)


def test_a_folder_without_room_for_all_parts_is_refused_at_the_first(tmp_path, monkeypatch):
    """Though the first one would fit."""
    real = shutil.disk_usage(tmp_path)
    enough = 2 * BYTES_PER_ENTRY * table("gaussian").nnz // 3
    monkeypatch.setattr("mcframe.partitions.fit_partitions.COMPILED_MEMORY_SHARE", 0.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=enough))
    with pytest.raises(mc.BackendError, match=rf"no room in folder.*{enough} are free.*TMPDIR"):
        mc.fit(model_of("gaussian"), data_of())


def test_a_disk_that_fills_up_meanwhile_is_an_error(monkeypatch):
    class Full(Scratch):
        def opened(self):
            file = super().opened()
            return Refusing(file)

    @attrs.frozen
    class Refusing:
        file: object

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, array):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(mc.BackendError, match="no room in folder"):
        fitted(model_of("gaussian"), data_of(), 0, Full())


def test_memory_is_what_limits_leave(tmp_path, monkeypatch):
    groups, limits = tmp_path / "groups", tmp_path / "limits"
    monkeypatch.setattr(memory, "GROUPS", groups)
    monkeypatch.setattr(memory, "LIMITS", limits)
    (limits / "mine").mkdir(parents=True)
    (limits / "memory" / "mine").mkdir(parents=True)
    monkeypatch.setattr(memory, "physical_gigabytes", lambda: 1e6)
    groups.write_text("0::/mine\n")
    (limits / "mine" / "memory.max").write_text("max\n")
    unlimited = memory.memory_gigabytes()
    (limits / "mine" / "memory.max").write_text("3000000000\n")
    assert memory.memory_gigabytes() == 3.0 < unlimited
    groups.write_text("4:cpu,memory:/mine\n")
    (limits / "memory" / "mine" / "memory.limit_in_bytes").write_text("2000000000\n")
    assert memory.memory_gigabytes() == 2.0
    groups.unlink()
    assert memory.memory_gigabytes() == unlimited


@LINUX
def test_memory_is_no_more_than_ulimit_says():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (4 * 10**8, 4 * 10**8));"
        "from mcframe.runtime.machine import memory_gigabytes;"
        "assert memory_gigabytes() == 0.4"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
