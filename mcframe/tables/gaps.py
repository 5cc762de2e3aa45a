"""Values that stand for missing ones: those that are declared, words, and codes among numbers."""

import datetime as dt
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError, warn_caller
from mcframe.contracts.validators import a_type, as_float, is_missing, listed, meant, plain
from mcframe.contracts.wording import wording

# A value that may be declared to stand for a missing one, and how such values are declared: one,
# several, or one or several by column.
GapValue = str | float | bool | dt.date | Decimal | None
Missing = GapValue | Sequence[GapValue] | Mapping[Any, GapValue | Sequence[GapValue]]

# What stands for a missing value among numbers, in small letters and without spaces around it.
SIGNS_OF_MISSING = {
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "n.a.", "nan", "<na>", "nil", "none", "null"),
    *("missing", "unknown"),
}
# Signs that may be meant as categories.
POSSIBLE_CATEGORIES = {"-", "--", ".", "nil", "none", "missing", "unknown"}
# Answers and remarks in surveys and laboratories that say that nothing was observed. Among numbers
# they are gaps; in a column of words they are asked about.
PHRASES = {
    *("don't know", "dont know", "do not know", "doesn't know", "does not know", "not known"),
    *("no answer", "no response", "no reply", "not answered", "nonresponse", "non-response"),
    *("refused", "refusal", "refuse", "refused to answer", "declined", "declined to answer"),
    *("prefer not to say", "prefer not to answer", "rather not say", "won't say", "not stated"),
    *(
        "not available",
        "not applicable",
        "inapplicable",
        "not asked",
        "not given",
        "not specified",
    ),
    *("unspecified", "not reported", "not recorded", "not provided", "not done", "not tested"),
    *("not measured", "not determined", "not performed", "not assessed", "not collected"),
    *("no data", "no value", "missing data", "no information", "no info", "skipped", "left blank"),
    *("weiß nicht", "weiss nicht", "keine angabe", "keine angaben", "ohne angabe", "verweigert"),
    *("keine antwort", "antwort verweigert", "unbekannt", "nicht bekannt", "fehlt", "fehlend"),
    *("nicht gemessen", "nicht bestimmt", "nicht erhoben", "nicht durchgeführt", "keine daten"),
    *("nicht verfügbar", "nicht untersucht", "trifft nicht zu", "entfällt"),
    *("ne sait pas", "ne sais pas", "je ne sais pas", "refus", "refusé", "sans réponse"),
    *("pas de réponse", "non réponse", "non-réponse", "non renseigné", "non renseignée"),
    *("non disponible", "non applicable", "non mesuré", "non fait", "non déterminé", "inconnu"),
    *("inconnue", "manquant", "manquante", "donnée manquante", "sans objet"),
    *("no sabe", "no sé", "no lo sé", "no contesta", "no responde", "no sabe/no contesta"),
    *("sin respuesta", "sin dato", "sin datos", "desconocido", "desconocida", "no disponible"),
    *("no aplica", "no realizado", "no medido", "se niega", "rehúsa"),
    *("non so", "non sa", "non risponde", "nessuna risposta", "non disponibile", "mancante"),
    *("sconosciuto", "sconosciuta", "non applicabile", "non eseguito", "non indicato", "rifiuta"),
    *("não sabe", "não sei", "sem resposta", "não respondeu", "não disponível", "não informado"),
    *("desconhecido", "ignorado", "sem informação", "não se aplica", "recusou", "não realizado"),
    *("weet niet", "weet ik niet", "geen antwoord", "geen opgave", "onbekend", "ontbreekt"),
    *("niet beschikbaar", "niet van toepassing", "geweigerd", "niet gedaan", "niet bepaald"),
    *("vet ej", "vet inte", "vet ikke", "ved ikke", "uppgift saknas", "saknas", "okänd"),
    *("ukjent", "ukendt", "ubesvart", "ikke besvart", "ikke oplyst", "inget svar", "mangler"),
    *("ei tietoa", "en osaa sanoa", "nem tudja", "nincs adat", "nincs válasz"),
    *("nie wiem", "brak danych", "brak odpowiedzi", "brak", "nie dotyczy", "odmowa", "nieznany"),
    *("nevím", "neuvedeno", "neznámý", "bilmiyor", "bilmiyorum", "cevap yok"),
    *("не знаю", "нет данных", "нет ответа", "отказ", "неизвестно", "не указано"),
    *(
        "不知道",
        "不详",
        "未知",
        "缺失",
        "拒绝回答",
        "未测",
        "不明",
        "無回答",
        "わからない",
        "未測定",
    ),
    *("欠測", "該当なし", "모름", "무응답", "결측"),
}
# Short forms, which are gaps among numbers, and may be anything in a column of words.
ABBREVIATIONS = {
    *("nd", "n.d", "n.d.", "n/d", "n. d.", "dk", "d.k.", "d/k", "nr", "n.r.", "n/r", "ref", "rf"),
    *("n.a", "na.", "n. a.", "nm", "n.m.", "nt", "n.t.", "ns", "np", "n.p.", "n.p", "qns"),
    *("k.a.", "k. a.", "k.a", "ka", "k/a", "n.b.", "n.e.", "n.v.", "w.n.", "o.a."),
    *("nsp", "ns/nc", "nsnc", "ns/nr", "n/s", "n/c", "s/d", "s/r", "s.d.", "n.v.t.", "nvt"),
    *("b.d.", "bd", "n.d", "н/д", "無", "无"),
    *("*", "**", "***", "x", "xx", "xxx", "#", "..", "...", "…", ":", "–", "—", "−", "---"),
    *("\\n", "#value!", "#div/0!", "#ref!", "#name?", "#num!", "#null!", "error", "tbd", "tba"),
    *("pending", "void", "blank", "refus.", "unk", "unkn", "unk."),
}
# What separates the parts of one text, as in "Don't know / refused".
PHRASE_SEPARATOR = re.compile(r"\s*(?:/|,|;|\bor\b|\boder\b|\bou\b)\s*")
# Digits behind a leading zero, as of "007", are a code and no number.
NUMBER = re.compile(r"[+-]?(?!0[0-9])([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def number_in(value: Any) -> float:
    """Return a number, or that which a text is; NaN of all else."""
    if isinstance(value, str):
        number = float(value) if NUMBER.fullmatch(value.strip()) else np.inf
        return number if np.isfinite(number) else np.nan
    read = as_float(value)
    return np.nan if read is None else read


def is_sign(value: Any) -> bool:
    """Return whether a value is a text that stands for a missing one among numbers."""
    return isinstance(value, str) and value.strip().lower() in SIGNS_OF_MISSING


def is_phrase(value: Any) -> bool:
    """Return whether a value is a text that says in words that nothing was observed."""
    return isinstance(value, str) and all_in(value, PHRASES)


def is_word_of_missing(value: Any) -> bool:
    """Return whether a value is a text that says, among numbers, that nothing was observed."""
    return isinstance(value, str) and all_in(value, PHRASES | ABBREVIATIONS)


def all_in(text: str, words: set[str]) -> bool:
    """Return whether a text, or each of several that it puts together, is one of some words."""
    text = " ".join(unicodedata.normalize("NFC", text).replace("’", "'").casefold().split())
    for inner in (text, text.strip("()[]<>{}\"'").strip()):
        if inner in words:
            return True
    parts = PHRASE_SEPARATOR.split(text)
    return len(parts) > 1 and all(part in words for part in parts)


def gaps_of(
    missing: Missing, names: Sequence[Any], option: str = "missing"
) -> dict[Any, tuple[Any, ...]]:
    """Return the values of each column that were declared to stand for missing ones.

    Parameters
    ----------
    missing : None, a value, a list of values, or a dict from column name to one or several
        Values are numbers, texts, dates or truth values.
    names : sequence
        The columns of the table.
    option : str
        What messages call ``missing``.

    Raises
    ------
    ModelError
        That names the column and the value, where it is none of these.
    """
    if missing is None:
        return {}
    if not isinstance(missing, Mapping):
        everywhere = values_in(missing, option)
        return dict.fromkeys(names, everywhere)
    for name in missing:
        if name not in names:
            columns = meant_column(name, names)
            raise ModelError(f"{option} names {plain(name)!r}, which is no column; {columns}")
    return {name: values_in(values, f"{option}[{name!r}]") for name, values in missing.items()}


def values_in(declared: Any, what: str) -> tuple[Any, ...]:
    """Return one or several values as a tuple; a ``ModelError`` names a wrong one."""
    values = [declared] if is_value(declared) else declared
    is_single = isinstance(values, np.ndarray) and not values.ndim
    if is_single or not isinstance(values, Iterable) or isinstance(values, bytes | Mapping):
        values = [declared]
    plain_values = tuple(plain(value) for value in values)
    for value in plain_values:
        if not is_value(value):
            raise ModelError(
                f"{what}: the value {value!r} is {a_type(value)}; give numbers, texts, dates or"
                " truth values that stand for missing ones, as a list, or by column, such as"
                ' {"age": [-99, "unknown"]}'
            )
    return plain_values


def is_value(value: Any) -> bool:
    """Return whether a value can stand in a column, and be compared with others there."""
    is_duration = isinstance(value, np.timedelta64)
    kinds = str | Real | Decimal | np.bool_ | dt.date
    return not is_duration and (isinstance(value, kinds) or is_missing(value))


def key_of(value: Any) -> Any:
    """Return what equal values have in common: a number, a text without spaces around it, a time.

    Text that reads as a number is that number; True is none.
    """
    if isinstance(value, bool | np.bool_):
        return "truth", bool(value)
    if isinstance(value, str):
        number = number_in(value)
        return ("text", value.strip()) if np.isnan(number) else ("number", number)
    if isinstance(value, dt.datetime):
        return "time", value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return "time", dt.datetime(value.year, value.month, value.day)
    read = as_float(value)
    return ("other", type(value)) if read is None else ("number", read)


def time_in(value: Any) -> Any:
    """Return the key of the time that a text of ISO writes; None of all else."""
    try:
        return key_of(dt.datetime.fromisoformat(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def stand_for_gaps(values: Sequence[Any], gaps: Sequence[Any]) -> Mask:
    """Return which of some values equal one of the gaps; None is a gap already, and does not."""
    if not gaps:
        return np.zeros(len(values), dtype=bool)
    keys = {key_of(gap) for gap in gaps} | {time_in(gap) for gap in gaps}
    return np.array([value is not None and key_of(value) in keys for value in values], dtype=bool)


def numbers_are_gaps(numbers: Array, gaps: Sequence[Any], precision: Any = np.float64) -> Mask:
    """Return which numbers equal one of the gaps, as a dtype of this precision writes them."""
    wanted = [number for kind, number in map(key_of, gaps) if kind == "number"]
    codes = np.asarray(wanted, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.isin(numbers, codes.astype(precision).astype(np.float64))


def meant_column(name: Any, names: Iterable[Any]) -> str:
    """Return the end of a message about an unknown column: the one that was meant, or all."""
    columns = [plain(column) for column in names]
    nearest = meant(str(plain(name)), [str(column) for column in columns], "columns")
    quoted = listed([repr(column) for column in columns], most=20)
    return nearest if nearest.endswith("?") else f"the columns are {quoted}"


def warn_of_suspects(codes_by_column: Mapping[Any, Sequence["Code"]], option: str) -> None:
    """A ``UserWarning`` of numbers that are probably codes, by column; ``option`` removes them."""
    suspects, gaps = [], dict[Any, list[float]]()
    for name, codes in codes_by_column.items():
        for code in codes:
            value = int(code.value) if code.value == int(code.value) else code.value
            suspects.append(f"{value} in column {name!r} ({code.count}x)")
            gaps.setdefault(name, []).append(value)
    if suspects:
        name = next(iter(gaps))
        warn_caller(
            f"numbers that are probably codes for missing values: {listed(suspects)};"
            f" {wording().gaps(option, gaps)} makes them gaps,"
            f" {wording().gaps(option, {name: []})} says that they are values"
        )


# Codes of missing values in use, as texts: -9, 99, -999.9, 9998, 88.
CODE_ABOVE_0 = re.compile(r"9+(\.9+)?|9+[6-8]|8+|7+")
CODE_BELOW_0 = re.compile(r"-(9+(\.9+)?|9+[5-8]|[1-8]|8+|7+|6+|5+|9+\.25)")
# The ends of whole numbers in files, and what oceanography and meteorology fill with.
FILL_VALUES = {"-32768", "32767", "65535", "2147483647", "-2147483648", "1e+20", "1e+30", "1e+36"}
FILL_VALUES |= {"9.96920996838687e+36", "-1e+20", "-1e+30"}
# A code is looked for if there are so many other entries, with two different values at least.
FEWEST_OTHER_ENTRIES = 10
# A scale, such as answers from 1 to 5, has at most so many levels.
LONGEST_SCALE = 11
# The least distance of a code from the nearest other value, in steps between those: if the code
# occurs at least twice as often as each of them, and if it occurs as often.
CODE_DISTANCE_IF_FREQUENT, CODE_DISTANCE = 3.0, 5.0
# A number at least this far below 0 is a code, however the others are spread, if none of them is
# negative.
LEAST_CODE_BELOW_0 = 7.0
# Between the end of a scale and a code at least so many entries would be expected.
FEWEST_EXPECTED_BETWEEN = 8.0
# The least share of a code among all entries, if it is less far away than the range of the others.
LEAST_CODE_SHARE = 0.01


@attrs.frozen
class Code:
    """A number that is probably a code for a missing value, and how often it stands there."""

    value: float
    count: int


def codes_among(numbers: Array) -> tuple[Code, ...]:
    """Return the numbers (NaN where missing) that are probably codes for missing values.

    Such a value is a code that is in use, is repeated, is the smallest or the largest, perhaps
    beside other codes, and stands apart from all others: by more than they spread, or by three to
    five times the largest step between neighbours in the half of them that is nearer to it; below
    0, where no other number is; or beyond the end of a scale, which is whole numbers one after the
    other, where others would be expected between. A code among the other numbers cannot be told.
    """
    observed = numbers[np.isfinite(numbers)]
    values, counts = np.unique(observed, return_counts=True)
    codes: list[Code] = []
    for sign in (1.0, -1.0, 1.0):  # the largest ones; the smallest ones; those that these hid
        towards, sizes = (sign * values, counts) if sign > 0.0 else (-values[::-1], counts[::-1])
        start = first_of_codes(towards, sizes, sign)
        codes += [
            Code(float(sign * value), int(count))
            for value, count in zip(towards[start:], sizes[start:], strict=True)
        ]
        kept = slice(start) if sign > 0.0 else slice(values.size - start, None)
        values, counts = values[kept], counts[kept]
    return tuple(codes)


def first_of_codes(values: Array, counts: IntArray, sign: float) -> int:
    """Return the place where the codes at the end of ascending values begin."""
    start = values.size
    while start > 0 and is_code(f"{sign * values[start - 1]:.15g}"):
        start -= 1
    # The longest run of codes that stands apart.
    for place in range(max(start, 2), values.size):
        if stands_apart(values, counts, place, sign):
            return place
    return int(values.size)


def is_code(text: str) -> bool:
    """Return whether a number is a code in use, as a text."""
    return bool(
        CODE_ABOVE_0.fullmatch(text) or CODE_BELOW_0.fullmatch(text) or text in FILL_VALUES
    )


def stands_apart(values: Array, counts: IntArray, place: int, sign: float) -> bool:
    """Return whether the values from a place on are codes that stand apart from those before.

    Several codes beside one another are all repeated.
    """
    others, codes, n_others = values[:place], values[place:], int(np.sum(counts[:place]))
    times, fewest = int(np.max(counts[place:])), int(np.min(counts[place:]))
    if n_others < FEWEST_OTHER_ENTRIES or times < 2 or (codes.size > 1 and fewest < 2):
        return False
    gap, spread, step = float(codes[0] - others[-1]), float(np.ptp(others)), near_step(others)
    sizes = np.abs(codes)
    if sign < 0.0 and np.all(codes > 0.0) and np.all(others <= 0.0):
        # Below 0, where no other number is.
        sure = float(sizes[-1]) >= LEAST_CODE_BELOW_0 or gap >= CODE_DISTANCE_IF_FREQUENT * step
        return gap > 3.0 and sure and (times >= 3 or float(sizes.min()) >= 10.0)
    near = float(np.mean(counts[max(place - 5, 0) : place]))
    often = times >= 3 and times >= LEAST_CODE_SHARE * (n_others + int(np.sum(counts[place:])))
    if sizes.min() < 10.0:
        # 9 beyond the end of a scale, and 8 and 7 beside it: as many as would stand between.
        # They are no more than a third of all, as parts of the scale might be.
        few = 2 * int(np.sum(counts[place:])) <= n_others
        on_scale = few and 9.0 in sizes and sign > 0.0 and is_scale(others)
        between = (gap - 1.0) * min(int(counts[place]), int(counts[place - 1]))
        return on_scale and often and between >= FEWEST_EXPECTED_BETWEEN
    if gap >= spread and gap >= CODE_DISTANCE_IF_FREQUENT * step:
        return times >= 3 or not any(is_beside_nines(number) for number in sizes)
    return often and (
        (gap >= CODE_DISTANCE_IF_FREQUENT * step and times >= 2.0 * near)
        or (gap >= CODE_DISTANCE * step and times >= near)
    )


def is_scale(values: Array) -> bool:
    """Return whether ascending values are few whole numbers, one after the other."""
    steps = np.all(np.diff(values) == 1.0)
    return bool(steps and values.size <= LONGEST_SCALE and values[0] == np.floor(values[0]))


def is_beside_nines(number: float) -> bool:
    """Return whether a code is one of those that stand beside 9, 99, 999, ..., such as 88."""
    return not set(f"{number:.15g}") <= {"9", "."} and f"{number:.15g}" not in FILL_VALUES


def near_step(others: Array) -> float:
    """Return the largest step between neighbours in the upper half of ascending values."""
    near = others[others.size // 2 - 1 :]
    return float(np.max(np.diff(near), initial=0.0)) if near.size > 1 else math.inf
