"""Files of answers: whole or not there, one error for all others, and nothing in them is run."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from io import BytesIO

import attrs
import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.contracts.stored_classes import STORED
from mcframe.fitting import fit as fitting
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.storage import archive as storage
from mcframe.storage import serializing as stored
from mcframe.storage.archive import HEADER, checksums_of

from .strategies import damaged

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2)) @ RNG.standard_normal((2, 6)) + 0.1 * RNG.standard_normal((12, 6))
X[RNG.random(X.shape) < 0.2] = np.nan
MODEL = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
LEARNED = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
FRAME = pd.DataFrame(
    {
        "size": np.where(np.isnan(X[:, 0]), 0.5, X[:, 0]),
        "town": pd.Categorical(RNG.choice(["Bonn", "Ulm"], 12)),
        "day": pd.Timestamp("2020-02-29", tz="UTC") + pd.to_timedelta(RNG.integers(0, 9, 12), "D"),
        "level": pd.array(RNG.choice(["a", "b", None], 12), dtype="string"),
        "month": pd.period_range("2020-01", periods=12, freq="M"),
        "range": pd.interval_range(0, 12),
        "any": np.array([1.5, "a", True, 7] * 3, dtype=object),
    },
    index=pd.MultiIndex.from_product([[1, 2, 3], list("abcd")], names=["k", None]),
)
FRAME.loc[(1, "b"), "size"] = np.nan
FACTS = f"{storage.ANSWER}/facts.json"
pytestmark = pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning")


def members_of(content):
    with zipfile.ZipFile(BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    """A file of these members, with the checksum of its bytes."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", compression) as file:
        file.comment = bytes(storage.CHECKSUM_BYTES)
        for name, value in members.items():
            file.writestr(name, value)
    checksum, _ = checksums_of(made)
    made.write(checksum)
    return made.getvalue()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The bytes of a fit, a posterior and a completed table, by their names."""
    folder = tmp_path_factory.mktemp("answers")
    made = {
        "fit": mc.fit(MODEL, {"x": X}, tol=1e-4),
        "posterior": mc.posterior(LEARNED, {"x": X}, factors=2, max_iter=4),
    }
    with pytest.warns(UserWarning, match="'any'"):
        made["completion"] = mc.complete(FRAME, types={"day": "date"})
    return {name: answer.save(folder / name).read_bytes() for name, answer in made.items()}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("files") / "answer.npz"


def loaded(file, content):
    """What is loaded from these bytes, or the package's error: soon, without much memory."""
    file.write_bytes(content)
    began = time.monotonic()
    tracemalloc.start()
    try:
        found = mc.load(file)
    except mc.McframeError as error:
        found = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 30e6, peak
    assert time.monotonic() - began < 10.0
    assert not isinstance(found, Exception) or str(file) in str(found)
    return found


@pytest.mark.parametrize("name", ["fit", "posterior", "completion"])
def test_packing_it_again_changes_nothing(answers, file, name):
    again = loaded(file, packed(members_of(answers[name])))
    assert type(again).__name__.lower() == name


@pytest.mark.parametrize(
    "n_examples", [60, pytest.param(3000, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of large bytes
def test_any_damage_is_refused(answers, file, n_examples):
    @settings(max_examples=n_examples)
    @given(st.data(), st.sampled_from(sorted(answers)))
    def is_refused(data, name):
        found = loaded(file, data.draw(damaged(answers[name])))
        assert isinstance(found, mc.DataError)
        assert "bytes do not agree with their checksum" in str(found)

    is_refused()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "was not written by mcframe"),
        (b"PK\x05\x06" + bytes(18), "was not written by mcframe"),
        (b"something else", "was not written by mcframe"),
    ],
)
def test_foreign_files_are_refused(file, content, match):
    assert match in str(loaded(file, content))
    with pytest.raises(mc.DataError, match="there is no file"):
        mc.load(file.with_name("nothing"))
    with pytest.raises(mc.DataError, match="was not written by mcframe"):
        mc.load(file.parent)
    with pytest.raises(mc.ModelError, match="path=3 was given"):
        mc.load(3)


@pytest.mark.parametrize(
    ("number", "said"),
    [(stored.FORMAT + 1, "upgrade mcframe"), (2, "read it with that version")],
)
def test_files_of_other_formats_are_refused(answers, file, number, said):
    members = members_of(answers["fit"])
    header = json.loads(members[HEADER]) | {"format": number, "mcframe": "9.9"}
    found = str(loaded(file, packed(members | {HEADER: json.dumps(header)})))
    assert f"by mcframe 9.9 in format {number}" in found
    assert said in found
    with pytest.raises(mc.DataError, match=f"in format {number}"):
        mc.path(MODEL, {"x": X}, weights=mc.selection.Grid(count=2), checkpoint=file)


def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    """A new file in its place would delete a device; to read a pipe or a device may never end."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    answer = mc.fit(MODEL, {"x": X}, tol=1e-2)
    for path in (pipe, link):
        for work in (
            lambda path=path: answer.save(path),
            lambda path=path: mc.load(path),
            lambda path=path: mc.fit(MODEL, {"x": X}, checkpoint=path),
        ):
            with pytest.raises(mc.DataError, match="is a device or a pipe, and no file; give the"):
                work()
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_an_answer_is_no_checkpoint(tmp_path):
    path = mc.fit(MODEL, {"x": X}).save(tmp_path / "fit.npz")
    match = "holds a Fit that save has written, and no checkpoint; give another file"
    with pytest.raises(mc.DataError, match=match):
        mc.fit(MODEL, {"x": X}, checkpoint=path)


def test_a_checkpoint_is_no_answer(file):
    file.unlink(missing_ok=True)
    mc.fit(MODEL, {"x": X}, checkpoint=file)
    with pytest.raises(mc.DataError, match=r"is a checkpoint that holds a fit; give it as check"):
        mc.load(file)
    with pytest.raises(mc.DataError, match="holds a fit, and a path is asked for"):
        mc.path(MODEL, {"x": X}, weights=mc.selection.Grid(count=2), checkpoint=file)


NAMES = sorted([*STORED, *stored.PUT_TOGETHER, "array", "given", "same", "float"])
FOREIGN = ["os.system", "Popen", "eval", "mcframe.storage.archive.Archive", "mcframe.this.Zen"]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([10**9, 10**12, 2**63, -(2**63), 10**400, 1e308, -0.0, "", "x", "<f8", "O"]),
    st.just([]),
    st.lists(st.integers(0, 3), max_size=3),
    st.just({}),
    st.builds(lambda name: {"is": name}, st.sampled_from([*NAMES, *FOREIGN])),
    st.builds(lambda k: {"is": "same", "as": k}, st.integers(-5, 400)),
    st.builds(
        lambda n: {"is": "pandas.RangeIndex", "start": 0, "stop": n, "step": 1, "name": None},
        st.sampled_from([0, 3, 12, 10**9, 10**15]),
    ),
    st.builds(
        lambda shape: {"is": "array", "dtype": "<f8", "shape": shape, "of": [1.0]},
        st.sampled_from([[1], [10**9], [1, 1], [-1], [0, 10**12]]),
    ),
    st.just({"is": "array", "dtype": "<U500000000", "shape": [3], "of": ["a", "b", "c"]}),
    st.just({"is": "float", "of": "nan"}),
    st.just({"is": "type", "of": "O"}),
)


def places_in(facts, path=()):
    """The paths to all parts of some JSON."""
    yield path
    parts = facts.items() if isinstance(facts, dict) else enumerate(facts)
    for key, part in parts:
        if isinstance(part, dict | list):
            yield from places_in(part, (*path, key))
        else:
            yield (*path, key)


def changed(facts, path, junk):
    if not path:
        return junk
    found = copy.deepcopy(facts)
    part = found
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = junk
    return found


@pytest.mark.parametrize(
    "n_examples",
    [15, *(pytest.param(n, marks=pytest.mark.slow(seconds=0.06 * n)) for n in (150, 4000))],
    ids=["few", "some", "many"],
)
@pytest.mark.parametrize("name", ["fit", "posterior", "completion"])
def test_facts_that_other_hands_have_written(answers, file, name, n_examples, record_property):
    """With a checksum that agrees: an answer comes out, or the package's own error."""
    members = members_of(answers[name])
    facts = json.loads(members[FACTS])
    places = list(places_in(facts))
    refused = []

    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(st.lists(st.tuples(st.sampled_from(places), JUNK), min_size=1, max_size=2))
    def is_read_or_refused(changes):
        told = facts
        for place, junk in changes:
            try:
                told = changed(told, place, junk)
            except (KeyError, IndexError, TypeError):  # the first one took its place away
                continue
        found = loaded(file, packed(members | {FACTS: json.dumps(told)}))
        refused.append(isinstance(found, mc.DataError))
        assert isinstance(found, mc.DataError | mc.Fit | mc.Posterior | mc.Completion)

    is_read_or_refused()
    record_property("refused", f"{sum(refused)} of {len(refused)}")
    assert np.mean(refused) > 0.5


ENDLESS = {"is": "pandas.RangeIndex", "start": 0, "stop": 10**15, "step": 1, "name": None}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"is": "objects", "shape": ENDLESS, "of": [1]}),
        json.dumps({"is": "Model", "blocks": ENDLESS, "terms": []}),
        json.dumps({"is": "Ordinal", "levels": 3, "thresholds": ENDLESS, "lowest": 0}),
        json.dumps({"is": "pandas.MultiIndex", "arrays": [], "names": ENDLESS}),
        json.dumps({"is": "Block", "name": "x", "likelihood": None, "reduce": ENDLESS}),
        "[" * 200_000 + "]" * 200_000,
        "1" * 100_000,
        "{}",
        "null",
        "\xff",
        '{"is": "same", "as": 0}',
        '{"is": "Fit"}',
        json.dumps({"is": "list", "of": {"is": "pandas.RangeIndex", "start": 0, "stop": 10**12}}),
    ],
)
@pytest.mark.parametrize("member", [FACTS, HEADER])
def test_texts_that_are_no_facts(answers, file, text, member):
    content = packed(members_of(answers["fit"]) | {member: text})
    found = loaded(file, content)
    assert isinstance(found, mc.DataError)
    if member == HEADER:
        with pytest.raises(mc.DataError, match="Give another path, or delete the file"):
            mc.path(MODEL, {"x": X}, weights=mc.selection.Grid(count=2), checkpoint=file)


def array_with(header):
    """The bytes of an array with another header."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<U4000000000', 'fortran_order': False, 'shape': (0,)}",
        "__import__('os').abort()",
    ],
)
def test_arrays_of_absurd_headers(answers, file, header):
    members = members_of(answers["fit"])
    name = f"{storage.ANSWER}/point/latent/left.npy"
    assert isinstance(loaded(file, packed(members | {name: array_with(header)})), mc.DataError)


def test_what_is_compressed_is_refused(answers, file):
    """A few kilobytes would hold gigabytes."""
    members = members_of(answers["fit"])
    zeros = BytesIO()
    np.save(zeros, np.zeros(2_000_000))
    members[f"{storage.ANSWER}/point/latent/left.npy"] = zeros.getvalue()
    content = packed(members, zipfile.ZIP_DEFLATED)
    assert len(content) < 100_000
    assert isinstance(loaded(file, content), mc.DataError)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": 0.5}, "its objective is 0.5, and it is"),
        ({"objective": {"is": "float", "of": "nan"}}, "its objective is nan"),
        ({"objective": "low"}, "Fit: objective="),
        ({"bound": 1e9}, "certified, with objective"),
        ({"bound": {"is": "float", "of": "-inf"}}, "certified, with objective"),
        ({"status": 3}, "Fit: status="),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused(answers, file, changes, said):
    members = members_of(answers["fit"])
    facts = json.loads(members[FACTS]) | changes
    assert said in str(loaded(file, packed(members | {FACTS: json.dumps(facts)})))


class Own(mc.Gaussian):
    """A likelihood of the user's own."""


def test_classes_of_the_users_own_are_named(tmp_path):
    model = mc.Model([mc.Block("x", Own())], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"x": X})
    with pytest.raises(mc.ModelError, match=r"problem\.model\.blocks\.0\.likelihood is a Own"):
        fit.save(tmp_path / "fit.npz")
    with pytest.raises(mc.ModelError, match="is a Own"):
        model.to_json()
    assert not list(tmp_path.iterdir())


def test_texts_that_are_no_models():
    text = MODEL.to_json()
    assert mc.Model.from_json(text) == MODEL
    for wrong in (
        "",
        "[]",
        "null",
        text[:-9],
        text.replace("Gaussian", "Own"),
        text.replace("Gaussian", "Fit"),
        text.replace('"format": ', '"format": 9'),
        text.replace("0.5", "-0.5"),
        3,
    ):
        with pytest.raises(mc.DataError, match="the text is no model"):
            mc.Model.from_json(wrong)


def test_a_fit_of_partitions_is_saved_without_them(tmp_path):
    fit = mc.fit(MODEL, RowsInMemory({"x": X}, 3), tol=1e-4)
    again = mc.load(fit.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(again.predict("x"), fit.predict("x"))
    np.testing.assert_array_equal(
        again.predict_rows("x", {"x": X[:2]}), fit.predict_rows("x", {"x": X[:2]})
    )
    assert (again.gap, again.notes) == (fit.gap, fit.notes)
    posterior = mc.posterior(LEARNED, RowsInMemory({"x": X}, 3), factors=2, max_iter=3)
    with pytest.raises(mc.ModelError, match=r"rows are in partitions, .* give checkpoint= to"):
        posterior.save(tmp_path / "posterior.npz")


def test_a_fit_of_partitions_with_offsets_is_saved_without_them(tmp_path):
    model = mc.Model([mc.Block("x", mc.Poisson(), bias=True)], [mc.NuclearNorm(1.0)])
    counts = np.arange(24.0).reshape(6, 4) % 5.0
    data = {"x": mc.Observations(counts, exposure=np.arange(1.0, 7.0)[:, None])}
    fit = mc.fit(model, RowsInMemory(data, 3), tol=1e-4)
    again = mc.load(fit.save(tmp_path / "fit.npz"))
    new = {"x": mc.Observations(counts[:2], exposure=2.0)}
    np.testing.assert_array_equal(again.predict_rows("x", new), fit.predict_rows("x", new))
    with pytest.raises(mc.ModelError, match="a compact fit has left behind with the partitions"):
        again.predict("x")


# --- Written as a whole -----------------------------------------------------------------------


KILLED = """
import os, signal, sys
import numpy as np
import mcframe as mc
from mcframe.storage import archive as storage

checksums_of = storage.checksums_of

def deadly(file):
    if sys.argv[3] == "within":
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return checksums_of(file)

x = np.load(sys.argv[2])
fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)]), {"x": x})
storage.checksums_of = deadly
fit.save(sys.argv[1])
"""


def test_a_killed_save_leaves_the_old_file(tmp_path):
    old = mc.fit(MODEL, {"x": X})
    path = old.save(tmp_path / "fit.npz")
    before = path.read_bytes()
    np.save(tmp_path / "x.npy", X)
    script = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "x.npy")]
    assert subprocess.run([*script, "within"], check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert subprocess.run([*script, "no"], check=False).returncode == 0
    assert mc.load(path).model.terms[0].weight == 0.1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.npz", "x.npy"]


@pytest.mark.parametrize("at", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, at):
    def fail(*given, **options):
        raise OSError(28, "No space left on device")

    fit = mc.fit(MODEL, {"x": X})
    path = fit.save(tmp_path / "fit.npz")
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        if at == "write":
            patch.setattr(np.lib.format, "write_array", fail)
        else:
            patch.setattr(storage.os, at, fail)
        with pytest.raises(mc.DataError, match=r"cannot be written \(No space left on device\)"):
            fit.compact().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(mc.DataError, match=r"cannot be written .* a folder that exists"):
        fit.save(tmp_path / "no" / "fit.npz")


# --- Checkpoints of data in memory ------------------------------------------------------------


CASES = {
    "proximal": [mc.NuclearNorm(0.5)],
    "fpc": [mc.NuclearNorm(0.5)],
    "alternating": [mc.NuclearNorm(0.5)],
    "factored": [mc.MaxNorm(0.5)],
    "splitting": [mc.NuclearNorm(0.5), mc.Box(-1.0, 1.0)],
    "rowwise": [mc.GaussianRows(np.eye(6))],
    "auto": [mc.NuclearNorm(0.5)],
}


class Killed(Exception):
    """What ends a fit as a killed process would."""


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize("backend", CASES)
def test_a_fit_in_memory_goes_on_from_its_checkpoint(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)
    block = mc.Block("x", mc.Gaussian(), bias=backend != "rowwise")
    model, file, seen = mc.Model([block], CASES[backend]), tmp_path / "fit.npz", []

    def die(record):
        seen.append(record)
        if len(seen) == 3:
            raise Killed

    options = {"backend": backend, "tol": 1e-9, "checkpoint": file, "max_iter": 200}
    try:
        mc.fit(model, {"x": X}, callback=die, **options)
        assert backend == "rowwise"  # which needs one certificate
    except Killed:
        records = []
        rest = mc.fit(model, {"x": X}, callback=records.append, **options)
        assert records[0].objective <= seen[1].objective
        assert records[0].bound >= seen[1].bound
        whole = mc.fit(model, {"x": X}, **(options | {"checkpoint": None}))
        assert rest.objective <= whole.objective + 1e-5 * abs(whole.objective)
    first = mc.fit(model, {"x": X}, **options)
    again = mc.fit(model, {"x": X}, **options)
    assert again.objective <= first.objective
    if first.status == "certified":
        assert again.history[-1].iteration == 0, "what is done is not made again"
    with pytest.raises(mc.DataError, match="holds another fit: different data"):
        mc.fit(model, {"x": 2.0 * X}, **options)
    with pytest.raises(mc.DataError, match="random_state is 0 there and 1 here"):
        mc.fit(model, {"x": X}, **options, random_state=1)


def test_checkpoints_are_not_written_all_the_time(tmp_path, monkeypatch):
    """The first certificate, then after ten seconds, and the end."""
    written, replace = [], storage.Archive.replace

    def counted(*given, **parts):
        written.append(1)
        replace(*given, **parts)

    monkeypatch.setattr(storage.Archive, "replace", counted)
    fit = mc.fit(MODEL, {"x": X}, tol=1e-10, checkpoint=tmp_path / "fit.npz")
    assert len(fit.history.records) > 3
    assert len(written) == 2


def test_the_reference_has_no_checkpoint(tmp_path):
    with pytest.raises(
        mc.ModelError, match=r"checkpoint was given, but a conic solver.*fit\.save"
    ):
        mc.fit(MODEL, {"x": X}, backend="reference", checkpoint=tmp_path / "fit.npz")
    assert not list(tmp_path.iterdir())


DRIVER = """
import sys
import numpy as np
import mcframe as mc
from mcframe.contracts.stored_classes import STORED
from mcframe.fitting import fit as fitting
from mcframe.posterior import estimation

fitting.CHECKPOINT_SECONDS = estimation.CHECKPOINT_SECONDS = 0.0
x = np.load(sys.argv[2])
print("begins", flush=True)
block = mc.Block("x", mc.Gaussian(variance=1.0), bias=True)
if sys.argv[3] == "fit":
    mc.fit(mc.Model([block], [mc.NuclearNorm(0.5)]), {"x": x}, tol=0.0, backend="fpc",
           max_iter=10**9, checkpoint=sys.argv[1])
else:
    mc.posterior(mc.Model([block], [mc.NuclearNorm()]), {"x": x}, factors=2, tol=1e-300,
                 max_iter=10**9, checkpoint=sys.argv[1])
"""


@pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning")
@pytest.mark.parametrize("verb", ["fit", "posterior"])
@pytest.mark.some(1.2, verb=1)
def test_a_process_that_is_killed_at_any_moment_goes_on(verb, tmp_path):
    np.save(tmp_path / "x.npy", X)
    file = tmp_path / "work.npz"
    arguments = [sys.executable, "-c", DRIVER, str(file), str(tmp_path / "x.npy"), verb]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        until, written = time.monotonic() + 60.0, set()
        while time.monotonic() < until and len(written) < 3:  # how soon depends on the machine
            if file.exists() and file.stat().st_size > 3000:
                written.add(file.stat().st_mtime_ns)
            time.sleep(0.02)
        time.sleep(0.2)
        process.kill()
    block = mc.Block("x", mc.Gaussian(variance=1.0), bias=True)
    if verb == "fit":
        model = mc.Model([block], [mc.NuclearNorm(0.5)])
        fit = mc.fit(model, {"x": X}, max_iter=0, backend="fpc", tol=0.0, checkpoint=file)
        begin = mc.fit(model, {"x": X}, max_iter=0, backend="fpc", tol=0.0)
        assert fit.objective < begin.objective
    else:
        model = mc.Model([block], [mc.NuclearNorm()])
        rest = mc.posterior(model, {"x": X}, factors=2, tol=1e-300, max_iter=1, checkpoint=file)
        assert len(rest.history) > 2
    assert not file.with_name("work.npz.writing").exists()


WORDS = [mc.Gaussian(variance=None), mc.Bernoulli(), mc.Poisson(), mc.Ordinal(3)]


@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_a_posterior_in_memory_goes_on_from_its_checkpoint(word, tmp_path):
    given = {"Gaussian": X, "Bernoulli": (X > 0.0) * 1.0, "Poisson": np.round(np.abs(X))}
    x = given.get(type(word).__name__, np.clip(np.round(X + 2.0), 1, 3))
    x = np.where(np.isnan(X), np.nan, x)
    model = mc.Model([mc.Block("x", word)], [mc.NuclearNorm()])
    options = {"factors": 2, "tol": 1e-12}
    whole = mc.posterior(model, {"x": x}, max_iter=10, **options)
    path = tmp_path / "posterior.npz"
    for n_sweeps in (4, 6):
        rest = mc.posterior(model, {"x": x}, checkpoint=path, max_iter=n_sweeps, **options)
    evidence = [[sweep.evidence for sweep in own.history] for own in (rest, whole)]
    assert len(evidence[0]) == len(evidence[1])
    if isinstance(word, mc.Gaussian):
        assert evidence[0] == evidence[1]
        np.testing.assert_array_equal(rest.predict("x"), whole.predict("x"))
    else:  # bounds are found anew
        np.testing.assert_allclose(evidence[0], evidence[1], rtol=0.02)
    with pytest.raises(mc.DataError, match=r"holds another posterior: .*factors is 2 there and 3"):
        mc.posterior(model, {"x": x}, checkpoint=path, factors=3)
    with pytest.raises(mc.DataError, match="holds a posterior, and a fit is asked for"):
        mc.fit(MODEL, {"x": X}, checkpoint=path)
    rows = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows()])
    with pytest.raises(mc.ModelError, match=r"steps of GaussianRows\(\) are not kept"):
        mc.posterior(rows, {"x": X}, checkpoint=tmp_path / "rows.npz")


def test_files_with_earlier_names_of_fields_are_read(answers, file):
    """Classes and fields were renamed within format 8."""

    def earlier(part):
        if isinstance(part, list):
            return [earlier(element) for element in part]
        if not isinstance(part, dict):
            return part
        declaration = STORED.get(part.get("is"))
        if declaration is None:
            return {key: earlier(element) for key, element in part.items()}
        fields = {new: old for old, new in declaration.renamed_fields.items()}
        old_names = [name for name in STORED if STORED[name] is declaration]
        return {fields.get(key, key): earlier(element) for key, element in part.items()} | {
            "is": old_names[-1]
        }

    members = members_of(answers["fit"])
    facts = json.loads(members[FACTS])
    renamed = earlier(facts)
    assert renamed != facts
    members[FACTS] = json.dumps(renamed).encode()
    fit, again = loaded(file, answers["fit"]), loaded(file, packed(members))
    assert attrs.astuple(again.rounding) == attrs.astuple(fit.rounding)
    assert again.gap == fit.gap
