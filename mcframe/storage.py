"""Fits on disk: arrays and JSON in one file, where each addition is whole or not there at all."""

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import Alternating, Dual, History, Paused, Point, Rounding
from mcframe.backends.alternating_steps import AlternatingState
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.model import Problem
from mcframe.numerics.machine import held
from mcframe.numerics.operators import LowRank
from mcframe.numerics.shrinkage import Shrinker

__all__ = ["Archive", "Entry", "fit_from_entry", "fit_to_entry"]

# Format 2 ends with a CRC of all bytes before it, of which 4 GB take a second.
HEADER, FORMAT = "header.json", 2
CHECKSUM_BYTES = 4
# Identities longer than this are digests, which say nothing to anybody.
READABLE = 24
# Before the names of the columns of a history.
HISTORY = "history."
# Parts of a solver's state that are computed anew: they are no numbers, or have one per entry.
FOUND_ANEW = frozenset({"evaluation", "rng", "dtype"})


@attrs.frozen(eq=False)
class Entry:
    """Arrays by name, and numbers and words that JSON holds."""

    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]


@attrs.frozen(eq=False)
class Archive:
    """Entries by name in an ``.npz`` file, which grows entry by entry.

    ``numpy.load`` reads it. Each addition is written to another file, which then takes the
    place of the first: whenever the process dies, the file holds all entries before that one.
    The comment at its end is a checksum of all other bytes, which is compared before any of them
    is made use of. Nothing in it can be run: arrays without objects, and JSON.
    """

    path: Path
    whole: set[tuple[int, ...]] = attrs.field(factory=set)  # files whose checksum was compared

    @classmethod
    def at_path(cls, path: object, kind: str, identity: Mapping[str, str]) -> "Archive":
        """Open the archive of a piece of work, or begin it where there is no file.

        Parameters
        ----------
        path : str or Path
        kind : str
            What it holds, in a word.
        identity : dict of str
            What must be the same for its entries to be of use: short texts, or digests.

        Raises
        ------
        ModelError
            Where ``path`` is no path.
        DataError
            Where the file is no archive, or of other work, or cannot be written.
        """
        if not isinstance(path, str | os.PathLike):
            raise ModelError(f"checkpoint={path!r} was given; the path of a file is needed")
        archive = cls(Path(os.fsdecode(path)))
        header = {"format": FORMAT, "kind": kind, "identity": dict(identity)}
        if archive.path.exists():
            archive.refuse_another(header)
        else:
            archive.write({HEADER: json.dumps(header)})
        return archive

    def refuse_another(self, header: Mapping[str, Any]) -> None:
        """Raise a ``DataError`` where the file is of another kind or of other work."""
        with self.reading() as file:
            there = json.loads(file.read(HEADER))
            if there["format"] != header["format"] or there["kind"] != header["kind"]:
                raise DataError(
                    f"checkpoint {self.path} holds a {there['kind']} of format {there['format']},"
                    f" and a {header['kind']} of format {header['format']} is asked for; give"
                    " another file"
                )
            here, known = header["identity"], there["identity"]
            changed = [
                difference(key, known.get(key, "none"), here.get(key, "none"))
                for key in dict.fromkeys([*here, *known])
                if known.get(key) != here.get(key)
            ]
        if changed:
            raise DataError(
                f"checkpoint {self.path} holds another {header['kind']}: {'; '.join(changed)}."
                " Give the same to go on with it, or another file, or delete this one"
            )

    def __contains__(self, name: str) -> bool:
        with self.reading() as file:
            return f"{name}/facts.json" in file.namelist()

    def read(self, name: str) -> Entry:
        """The entry of that name, which must be there."""
        with self.reading() as file:
            arrays = {}
            for member in file.namelist():
                if member.startswith(f"{name}/") and member.endswith(".npy"):
                    with file.open(member) as stream:
                        array = np.lib.format.read_array(stream, allow_pickle=False)
                    arrays[member.removeprefix(f"{name}/").removesuffix(".npy")] = array
            return Entry(arrays, json.loads(file.read(f"{name}/facts.json")))

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry, which is on the disk when this returns."""
        arrays = {f"{name}/{key}.npy": array for key, array in entry.arrays.items()}
        self.write({**arrays, f"{name}/facts.json": json.dumps(dict(entry.facts))})

    def replace(self, name: str, entry: Entry) -> None:
        """Put one entry in the place of all, which is on the disk when this returns."""
        with self.reading() as file:
            header = file.read(HEADER).decode()
        arrays = {f"{name}/{key}.npy": array for key, array in entry.arrays.items()}
        facts = {f"{name}/facts.json": json.dumps(dict(entry.facts))}
        self.write({HEADER: header, **arrays, **facts}, keep=False)

    def remove(self) -> None:
        """Delete the file, and unfinished ones of processes that died."""
        self.path.unlink(missing_ok=True)
        self.unfinished.unlink(missing_ok=True)

    @property
    def unfinished(self) -> Path:
        """The file that is written before it takes the place of the other."""
        return self.path.with_name(self.path.name + ".writing")

    def write(self, members: Mapping[str, Any], keep: bool = True) -> None:
        """Replace the file by one with more members; ``keep`` those that are there, or not."""
        try:
            with held(self.unfinished) as file:
                try:
                    self.fill(file, members, keep)
                    os.replace(self.unfinished, self.path)
                except BaseException:  # half a file would fill the disk for others, too
                    self.unfinished.unlink(missing_ok=True)
                    raise
        except BlockingIOError:
            raise DataError(
                f"checkpoint {self.path} is being written by another process; give each of them"
                " a file of its own"
            ) from None
        except OSError as error:
            raise DataError(
                f"checkpoint {self.path} cannot be written ({error.strerror}); give a file in a"
                " folder that exists, on a disk with room"
            ) from None

    def fill(self, file: IO[bytes], members: Mapping[str, Any], keep: bool) -> None:
        """Write members into an open file, and the checksum of all; it is on the disk then."""
        file.truncate(0)  # a process may have left it that died
        if keep and self.path.exists():
            with self.reading(), self.path.open("rb") as before:  # no damage gets a new checksum
                shutil.copyfileobj(before, file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = bytes(CHECKSUM_BYTES)
            known = archive.namelist()  # another process may have added the same
            for name, value in members.items():
                if name in known:
                    continue
                with archive.open(name, "w", force_zip64=True) as stream:
                    if isinstance(value, str):
                        stream.write(value.encode())
                    else:
                        array = np.asarray(value)
                        np.lib.format.write_array(stream, array, allow_pickle=False)
        file.flush()
        checksum, _ = checksums_of(file)
        file.write(checksum)
        file.flush()
        os.fsync(file.fileno())

    @contextmanager
    def reading(self) -> Iterator[zipfile.ZipFile]:
        """The file to read from; where it is no archive, or a damaged one, a ``DataError``."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                if stamp not in self.whole:
                    checksum, there = checksums_of(file)
                    if checksum != there:
                        raise zipfile.BadZipFile
                    self.whole.add(stamp)
                with zipfile.ZipFile(file) as archive:
                    yield archive
        except (OSError, zipfile.BadZipFile):
            raise DataError(
                f"checkpoint {self.path} is no file of finished fits, or it is damaged: its bytes"
                " do not agree with their checksum. Give another path, or delete the file to begin"
                " afresh"
            ) from None


def checksums_of(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The checksum of all bytes but the last ones, and these, at which the file is left."""
    end = max(file.seek(0, os.SEEK_END) - CHECKSUM_BYTES, 0)
    file.seek(0)
    checksum = 0
    while chunk := file.read(min(end - file.tell(), 1 << 20)):
        checksum = zlib.crc32(chunk, checksum)
    there = file.read(CHECKSUM_BYTES)
    file.seek(end)
    return checksum.to_bytes(CHECKSUM_BYTES, "little"), there


def difference(key: str, there: str, here: str) -> str:
    """Say in words what two pieces of work differ in."""
    if max(len(there), len(here)) > READABLE:
        return f"different {key}"
    return f"{key} is {there} there and {here} here"


def fit_to_entry(fit: Fit) -> Entry:
    """A fit without its problem; ``fit_from_entry`` makes it whole again, to the last bit."""
    point, dual = fit.point, fit.point.dual
    arrays = {"left": point.latent.left, "right": point.latent.right}
    for position, block in enumerate(fit.model.blocks):
        if block.name in fit.effects:
            # Files of earlier versions call them so, too.
            arrays[f"biases.{position}"] = fit.effects[block.name]
    if dual is not None:
        arrays["dual.gradient"] = dual.gradient
        arrays |= arrays_by_position("dual.terms", dual.terms)
        arrays |= arrays_by_position("dual.given", dual.given)
    arrays |= {f"{HISTORY}{name}": column for name, column in fit.history.table().items()}
    facts = {
        "status": fit.status,
        "message": fit.message,
        "objective": fit.objective,
        "bound": fit.bound,
        "rounding": attrs.asdict(fit.rounding),
        "backend": fit.backend,
        "random_state": fit.random_state,
        "dual": None if dual is None else [len(dual.terms), len(dual.given)],
        "known": None if dual is None else dual.known,
        "paused": paused_to_facts(fit.paused, arrays),
    }
    return Entry(arrays, facts)


def fit_from_entry(problem: Problem, entry: Entry) -> Fit:
    """The fit of a problem that ``fit_to_entry`` was given."""
    arrays, facts = entry.arrays, entry.facts
    latent = LowRank(arrays["left"], arrays["right"])
    names = [block.name for block in problem.model.blocks]
    return Fit(
        problem=problem,
        point=Point(latent, dual_from(entry)),
        effects={
            name: arrays[f"biases.{k}"] for k, name in enumerate(names) if f"biases.{k}" in arrays
        },
        status=facts["status"],
        message=facts["message"],
        objective=facts["objective"],
        bound=facts["bound"],
        rounding=Rounding(**facts["rounding"]),
        backend=facts["backend"],
        history=History.of_table(
            {name.removeprefix(HISTORY): array for name, array in arrays.items()}
        ),
        random_state=facts["random_state"],
        paused=paused_from(entry),
    )


def paused_to_facts(paused: Paused | None, arrays: dict[str, Array]) -> Any:
    """A paused state of alternation as JSON, its arrays put among others; else None."""
    if paused is None or not isinstance(paused.state, AlternatingState):
        return None
    state = attrs.asdict(paused.state, filter=lambda field, _: field.name not in FOUND_ANEW)

    def plain(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[name] = value
            return {"array": name}
        if isinstance(value, dict):
            return {key: plain(part, f"{name}.{key}") for key, part in value.items()}
        if isinstance(value, tuple | list):
            return [plain(part, f"{name}.{k}") for k, part in enumerate(value)]
        return value.item() if isinstance(value, np.generic) else value

    facts = {"wait": paused.wait, "gap_ratio": paused.gap_ratio, "judged": paused.certified}
    return {"state": plain(state, "paused"), **facts}


def paused_from(entry: Entry) -> Paused | None:
    """The paused state of alternation in an entry; None in files of earlier versions."""

    def read(plain: Any) -> Any:
        if isinstance(plain, list):
            return tuple(map(read, plain))
        if not isinstance(plain, dict):
            return plain
        if plain.keys() == {"array"}:
            return entry.arrays[plain["array"]]
        return {key: read(part) for key, part in plain.items()}

    facts = read(entry.facts.get("paused"))
    if facts is None:
        return None
    gone: Any = None
    shrinker = Shrinker(**facts["state"].pop("shrinker"), rng=gone)
    state = AlternatingState(**facts.pop("state"), evaluation=gone, shrinker=shrinker)
    certified = facts.pop("judged", True)
    return Paused(Alternating(), state, certified=certified, **facts)


def arrays_by_position(name: str, values: tuple[Array | None, ...]) -> dict[str, Array]:
    """Arrays by their position; None is left out."""
    return {f"{name}.{k}": value for k, value in enumerate(values) if value is not None}


def dual_from(entry: Entry) -> Dual | None:
    """The dual information of a stored point."""
    if entry.facts["dual"] is None:
        return None
    arrays, (n_terms, n_pieces) = entry.arrays, entry.facts["dual"]
    return Dual(
        gradient=arrays["dual.gradient"],
        terms=tuple(arrays.get(f"dual.terms.{k}") for k in range(n_terms)),
        given=tuple(arrays.get(f"dual.given.{k}") for k in range(n_pieces)),
        known=tuple(None if pair is None else tuple(pair) for pair in entry.facts["known"]),
    )
