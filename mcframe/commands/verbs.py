"""The commands ``impute``, ``fit``, ``predict``, ``verify`` and ``explain``."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.commands.files import (
    is_document,
    read_backend,
    read_model,
    read_table_file,
    read_types,
)
from mcframe.commands.parsing import (
    DONE,
    LAYOUT,
    UNFINISHED,
    Parser,
    Report,
    Subparsers,
    natural,
    positive,
    reporting,
    tolerance,
    whole_number,
)
from mcframe.contracts.arrays import IntArray
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import a_type, counted, meant
from mcframe.contracts.wording import rows_numbered
from mcframe.datasets.completing_files import (
    TRAINING_ROWS,
    WRITTEN_IN_PARTS,
    rows_to_learn_from,
    write_filled,
)
from mcframe.datasets.readers import choose_columns, find_file
from mcframe.datasets.table_files import (
    FORMATS,
    ParquetRows,
    checked_output,
    gaps_by_name,
    gaps_named,
    named_beside,
    write_tables,
)
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.fitting.verification import Explanation, explain, verify
from mcframe.loading import load
from mcframe.posterior.answer import Posterior, posterior
from mcframe.tables import Completion, Declared, complete, declare, relation
from mcframe.tables.declared_column import members_of, names_of

SAVED = (".npz",)
MODELS = """\
types: --types visits=count, --types 'stage=["I","II","III"]', --types 'income=["number",0,null]',
or a file of TOML or JSON with such names and values. The kinds are number, count, label,
category, ordinal, date and skip; other columns are detected.

a model: a file of TOML or JSON, with the columns of each block:

    terms = [{ is = "NuclearNorm", weight = 0.1 }]

    [[blocks]]
    name = "x"
    columns = ["age", "weight"]      # or "gene_*", all that match
    likelihood = "Gaussian"          # or { is = "Huber", delta = 1.5 }
    standardize = true
"""
NOTES = f"""\
tables: .csv, .parquet, .arrow and .feather, by the ending. In CSV the first line names the
columns; an empty cell, NA, NaN and nan are missing. With --missing "don't know" or
--missing age=-99 such cells are, too, also in new rows that predict reads.

{MODELS}
exit codes: 0 certified or converged (verify: the answers agree); 1 not, and the output says why;
2 a mistake in what was given; 130 interrupted before there was an answer, and nothing is written

Ctrl-C during a fit ends it with the best answer so far, which is written.
"""


def add_verbs(commands: Subparsers) -> None:
    """Declare the commands among the others."""
    command = added(commands, impute, "fill the missing entries of a table")
    add_table(command)
    command.add_argument(
        "--model", metavar="FILE", help="fill by this model; without --method by its optimum"
    )
    command.add_argument(
        "--method",
        choices=("posterior", "optimum"),
        help="the posterior (of the rows, or of --model), or the certified optimum (of --model, or"
        " of a model with a likelihood for each type)",
    )
    command.add_argument(
        "--intervals",
        metavar="LEVEL",
        type=tolerance,
        help="with 0.9, write the ends of 90 %% intervals, too: NAME.lower and NAME.upper",
    )
    command.add_argument(
        "--draws",
        metavar="M",
        type=natural,
        help="write M tables with random draws, too: NAME.draw1, NAME.draw2, ...; make the"
        " analysis on each, and combine the answers by Rubin's rules, in Python by pool (20 or"
        " more for intervals)",
    )
    command.add_argument(
        "--relation",
        metavar="TEXT",
        action="append",
        default=[],
        help="an equation that holds in each row, such as 'total = food + rent'; may be repeated",
    )
    command.add_argument(
        "--relation-tolerance",
        metavar="T",
        type=positive,
        help="by how much the sides of relations may differ in rows of which all is known"
        " (default: rounding)",
    )
    command.add_argument(
        "--groups", metavar="COLUMN", help="rows with the same value here have a mean in common"
    )
    command.add_argument(
        "--time",
        metavar="COLUMN",
        help="by which rows are ordered, in their groups: the rows before and after predict a row",
    )
    command.add_argument(
        "--trend",
        metavar="DEGREE",
        type=int,
        default=0,
        help="the degree of the polynomials of time that the means of groups are (default: 0)",
    )
    command.add_argument(
        "--row-weights",
        metavar="COLUMN",
        help="how many of a population each row stands for, such as the weights of a survey",
    )
    command.add_argument(
        "--nonlinear",
        action=argparse.BooleanOptionalAction,
        help="correct columns by similar rows and regression trees where held-out entries gain"
        " by them (default: where the table allows it)",
    )
    command.add_argument(
        "--detect-limits",
        action=argparse.BooleanOptionalAction,
        help="take gaps for numbers beyond the observed ones where the table says so (default)",
    )
    command.add_argument(
        "--training-rows",
        metavar="N",
        type=natural,
        help="learn from N random rows of a Parquet file that has more, and fill all rows in parts"
        f" (default: all rows at once; {TRAINING_ROWS} take less than a gigabyte with 20 columns)",
    )
    command.add_argument("--save", metavar="FILE", help="save the answer for predict (.npz)")
    add_backend(command)
    add_identifiers(command)
    add_output(command, "the completed table")
    add_seed(command)

    command = added(commands, fit_table, "fit a model to a table, and save the fit")
    add_table(command)
    add_model(command, 1e-6)
    add_identifiers(command)
    command.add_argument(
        "--checkpoint", metavar="FILE", help="continue from this file after an interruption"
    )
    add_output(command, "the saved fit (.npz)")
    add_seed(command)

    command = added(commands, predict, "predict by a saved fit: its own table, or new rows")
    command.epilog = NOTES.replace(f"{MODELS}\n", "")
    command.add_argument("fit", help="what fit, or impute --save, has written")
    command.add_argument("rows", nargs="?", help="new rows (default: the table of the fit)")
    command.add_argument(
        "--column",
        metavar="NAME",
        help="predict this column alone: its mean, or the probability of each value",
    )
    command.add_argument(
        "--intervals",
        metavar="LEVEL",
        type=tolerance,
        help="with 0.9, write the ends of 90 %% intervals, too: NAME.lower and NAME.upper, or"
        " with --column two columns lower and upper",
    )
    add_identifiers(command)
    add_csv(command)
    add_output(command, "the predictions")

    command = added(commands, verify_table, "compare a fit with an exact solver")
    add_table(command)
    add_model(command, 1e-5)
    add_identifiers(command)
    command.add_argument("--rows", metavar="N", type=natural, help="take N random rows")
    add_seed(command)

    command = added(commands, explain_table, "list the solvers that can run a model")
    add_table(command)
    add_model(command)
    add_identifiers(command)


def added(
    commands: Subparsers, work: Callable[[argparse.Namespace], Report], summary: str
) -> Parser:
    """The parser of a command, which is described by its docstring."""
    name = work.__name__.removesuffix("_table")
    parser = commands.add_parser(
        name, help=summary, description=work.__doc__, epilog=NOTES, formatter_class=LAYOUT
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not text")
    parser.add_argument(
        "--plugin",
        metavar="MODULE|FILE.py",
        action="append",
        default=[],
        help="import a module with likelihoods, terms or solvers of your own; may be repeated",
    )
    interrupted = "interrupted before there was an answer; nothing was written"
    parser.set_defaults(run=reporting(work), interrupted=interrupted)
    return parser


def add_table(command: Parser) -> None:
    """Declare the arguments of a table that is read."""
    command.add_argument("table", help="the table")
    command.add_argument(
        "--types",
        metavar="NAME=KIND|FILE",
        action="append",
        default=[],
        help="types of columns; may be repeated",
    )
    add_csv(command)


def add_csv(command: Parser) -> None:
    """Declare how CSV is read."""
    command.add_argument(
        "--delimiter", metavar="C", type=one_character, default=",", help="of CSV (default: ,)"
    )
    command.add_argument(
        "--decimal", metavar="C", type=one_character, default=".", help="of CSV (default: .)"
    )
    command.add_argument(
        "--encoding", metavar="NAME", default="utf-8", help="of CSV (default: utf-8)"
    )
    command.add_argument(
        "--missing",
        metavar="TEXT|NAME=TEXT",
        action="append",
        default=[],
        help="what stands for missing entries, too, in all columns or in one; may be repeated",
    )
    command.add_argument(
        "--dates", metavar="FORMAT", help="of CSV, such as %%d.%%m.%%Y (default: 2026-12-31)"
    )


def add_model(command: Parser, tol: float | None = None) -> None:
    """Declare the model, and the limits of its fit where there is one."""
    summary = "a model (default: a likelihood for each type of column, and one nuclear norm)"
    command.add_argument("--model", metavar="FILE", help=summary)
    if tol is not None:
        add_backend(command)
        command.add_argument(
            "--tol",
            metavar="T",
            type=tolerance,
            default=tol,
            help=f"relative gap (default: {tol})",
        )
        command.add_argument(
            "--max-seconds",
            metavar="S",
            type=positive,
            default=np.inf,
            help="the time allowed",
        )


def add_backend(command: Parser) -> None:
    """Declare the solver."""
    command.add_argument(
        "--backend",
        metavar="NAME|CLASS|JSON",
        default="auto",
        help="the solver: a name that explain lists, a class of a plugin, or"
        ' \'{"is":"FPC","eta":0.5}\' (default: auto)',
    )


def add_output(command: Parser, summary: str) -> None:
    """Declare where the answer is written."""
    command.add_argument("--out", metavar="FILE", required=True, help=summary)
    command.add_argument(
        "--overwrite", action="store_true", help="replace outputs that exist, never an input"
    )


def add_identifiers(command: Parser) -> None:
    """Declare the columns that name rows."""
    command.add_argument(
        "--id",
        metavar="NAME",
        action="append",
        default=[],
        help="a column that names the rows: no model uses it, and all tables that are written have"
        " it; may be repeated (default: columns that are set aside and whose values all differ)",
    )


def add_seed(command: Parser) -> None:
    """Declare the seed."""
    command.add_argument(
        "--seed",
        metavar="N",
        type=whole_number,
        default=0,
        help="of all that is random (default: 0)",
    )


def one_character(text: str) -> str:
    """Read a delimiter; a backslash and t, as many shells pass it on, are a tab."""
    if text == r"\t":
        return "\t"
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} was given; one character is needed")
    return text


def impute(arguments: argparse.Namespace) -> Report:
    """Fill the missing entries of a table with the posterior of its rows, or by a model."""
    method = arguments.method or ("optimum" if arguments.model else "posterior")
    if method == "optimum" and (arguments.intervals or arguments.draws):
        raise ModelError(
            "--intervals and --draws need a posterior, and this is an optimum; add --method"
            " posterior"
        )
    if arguments.backend != "auto" and not (arguments.model and method == "optimum"):
        remedy = "leave --method posterior out" if arguments.model else "add --model FILE"
        raise ModelError(f"--backend is that of the optimum of a model; {remedy}")
    out = output(arguments, arguments.out)
    names = ["lower", "upper"] * bool(arguments.intervals)
    names += [f"draw{k + 1}" for k in range(arguments.draws or 0)]
    further = named_outputs(arguments, out, names)
    saved = None if arguments.save is None else output(arguments, arguments.save, SAVED)
    within = arguments.relation_tolerance
    in_parts = rows_in_parts(arguments, method, [out, *further])
    if arguments.model:
        options = ("relation", "groups", "time", "trend", "row-weights", "nonlinear")
        for option in (*options, "detect-limits"):
            if getattr(arguments, option.replace("-", "_")):
                raise ModelError(f"--{option} is without --model; leave one of them out")
        declared = declared_table(arguments)
        answer: Fit | Posterior
        if method == "posterior":
            answer = posterior(declared.model, declared.data, random_state=arguments.seed)
        else:
            backend = read_backend(arguments.backend)
            seed = arguments.seed
            answer = fit(declared.model, declared.data, backend=backend, random_state=seed)
        completed = Completion.of(declared, answer)
    else:
        table, numbers = training_table(arguments, in_parts)
        with rows_numbered(numbers):
            completed = complete(
                table,
                types_of(arguments, table),
                missing=gaps_by_name(arguments.missing, column_names(table)),
                method=arguments.method,
                random_state=arguments.seed,
                groups=arguments.groups,
                time=arguments.time,
                trend=arguments.trend,
                row_weights=arguments.row_weights,
                nonlinear=arguments.nonlinear,
                detect_limits=arguments.detect_limits is not False,
                relations=[relation(text, within) for text in arguments.relation] or None,
            )
    identifiers = identifiers_of(completed.declared, arguments.id)
    if in_parts is None:
        tables = [completed.table]
        if arguments.intervals:
            ends = completed.interval(arguments.intervals)
            tables += [with_identifiers(end, completed.table, identifiers) for end in ends]
        if arguments.draws:
            tables += completed.draws(arguments.draws, random_state=arguments.seed)
        write_tables(dict(zip([out, *further], tables, strict=True)))
    else:
        write_filled(
            [out, *further],
            completed,
            in_parts,
            arguments.intervals,
            lambda end, rows: with_identifiers(end, rows, identifiers),
        )
    kept = [] if saved is None else [completed.save(saved)]
    parts = [completed, *([completed.fit] if isinstance(completed.answer, Fit) else [])]
    text, n_rows = "\n".join(map(str, parts)), completed.declared.frame.shape[0]
    if in_parts is not None:
        filled = counted(in_parts.n_rows, "row")
        text = f"{filled} filled; learned from {n_rows} of them, which the report is about\n{text}"
    code, text, facts = report_of(completed, text, [out, *further, *kept])
    n_filled = n_rows if in_parts is None else in_parts.n_rows
    return code, text, {**facts, "rows": n_filled, "training_rows": n_rows}


def rows_in_parts(
    arguments: argparse.Namespace, method: str, outputs: Sequence[Path]
) -> ParquetRows | None:
    """The rows of the table where they are filled in parts; None where all are read at once.

    They are where ``--training-rows`` are fewer than those of a Parquet file; an option that needs
    all rows is refused beside it.
    """
    if arguments.training_rows is None:
        return None
    needed = [
        f"--{name}" for name in ("model", "draws", "groups", "time") if vars(arguments)[name]
    ]
    needed += ["--method optimum"] * (method == "optimum" and not arguments.model)
    if Path(arguments.table).suffix.lower() != ".parquet":
        needed.append(f"a table that is no .parquet ({arguments.table})")
    needed += [
        f"an output that is no .parquet or .csv ({output.name})"
        for output in outputs
        if output.suffix.lower() not in WRITTEN_IN_PARTS
    ]
    if needed:
        raise ModelError(
            f"--training-rows was given beside {needed[0]}, which needs all rows at once;"
            " leave one of them out"
        )
    rows = ParquetRows.of(arguments.table, arguments.missing)
    return rows if rows.n_rows > arguments.training_rows else None


def training_table(
    arguments: argparse.Namespace, in_parts: ParquetRows | None
) -> tuple[Any, IntArray | None]:
    """The table that is learned from, and the numbers of its rows where they are not all."""
    if in_parts is None:
        return table_in_file(arguments), None
    check_names_of_gaps(arguments, in_parts.names)
    numbers = rows_to_learn_from(in_parts.n_rows, arguments.training_rows, arguments.seed)
    return in_parts.take(numbers), numbers


def fit_table(arguments: argparse.Namespace) -> Report:
    """Fit a model to a table, print its certificate, and save the fit for predict."""
    out = output(arguments, arguments.out, SAVED)
    backend = read_backend(arguments.backend)
    declared = declared_table(arguments)
    answer = fit(
        declared.model,
        declared.data,
        backend=backend,
        tol=arguments.tol,
        max_seconds=arguments.max_seconds,
        random_state=arguments.seed,
        checkpoint=arguments.checkpoint,
    )
    completed = Completion.of(declared, answer)
    completed.save(out)
    return report_of(completed, f"{declared}\n\n{answer.model}\n\n{answer}", [out])


def predict(arguments: argparse.Namespace) -> Report:
    """Fill the missing entries of new rows by a saved fit, or predict one column of them."""
    out = output(arguments, arguments.out)
    completed = load(find_file(arguments.fit))
    if not isinstance(completed, Completion):
        raise DataError(
            f"{arguments.fit} holds {a_type(completed)} without the columns of a table; give"
            " what mcframe fit, mcframe impute --save or completed.save has written (what mcframe"
            " ratings --save has written is for mcframe ratings)"
        )
    if arguments.intervals and not isinstance(completed.answer, Posterior):
        raise ModelError(
            f"--intervals need a posterior, and {arguments.fit} holds an optimum; save a"
            " posterior by mcframe impute --save"
        )
    name, declared = arguments.column, completed.declared
    names = ["lower", "upper"] * bool(arguments.intervals and name is None)
    further = named_outputs(arguments, out, names)
    rows = declared.frame.to_native()
    if arguments.rows is not None:
        dtypes = {column.name: column.column.series.dtype for column in declared.columns}
        rows = table_in_file(arguments, arguments.rows, dtypes)
    tables = predicted_tables(completed, arguments, rows)
    identifiers = identifiers_of(declared, arguments.id)
    tables = [with_identifiers(table, rows, identifiers) for table in tables]
    written = [out, *further]
    write_tables(dict(zip(written, tables, strict=True)))
    n_rows = len(nw.from_native(tables[0]))
    facts = {"status": completed.answer.status, "rows": n_rows, "outputs": written}
    return DONE, f"{counted(n_rows, 'row')} predicted\n{list_of_files(written)}", facts


def predicted_tables(
    completed: Completion[Any], arguments: argparse.Namespace, rows: Any
) -> list[Any]:
    """The tables that ``predict`` writes: the filled rows and intervals, or one column's."""
    name, level, is_fitted_table = arguments.column, arguments.intervals, arguments.rows is None
    if name is None:
        ends: Any = ()
        if level:
            ends = (
                completed.interval(level)
                if is_fitted_table
                else completed.interval_rows(rows, level)
            )
        return [completed.table if is_fitted_table else completed.complete_rows(rows), *ends]
    if not level:
        return [completed.predict(name) if is_fitted_table else completed.predict_rows(name, rows)]
    return [completed.declared.predict_interval(completed.posterior, name, rows, level)]


def named_outputs(arguments: argparse.Namespace, out: Path, names: Iterable[str]) -> list[Path]:
    """The paths of outputs with further names, in the folder of the first, checked."""
    return [output(arguments, named_beside(out, name)) for name in names]


def column_names(table: Any) -> list[str]:
    """The names of the columns of a table of any library."""
    return list(nw.from_native(table).columns)


def types_of(arguments: argparse.Namespace, table: Any) -> dict[str, Any] | None:
    """The types of columns; those that name rows are set aside where nothing else is said."""
    types, identifiers = read_types(arguments.types) or {}, vars(arguments).get("id", ())
    for name in identifiers:
        if name not in column_names(table):
            remedy = meant(name, column_names(table), "columns")
            raise ModelError(f"--id {name!r} is no column of the table; {remedy}")
    return {**dict.fromkeys(identifiers, "skip"), **types} or None


def identifiers_of(declared: Declared[Any], names: Sequence[str]) -> list[str]:
    """The columns that name rows: the given ones, or those set aside whose values all differ."""
    if names:
        return [declared.column(name).name for name in names]
    n_rows = declared.frame.shape[0]
    return [
        column.name
        for column in declared.columns
        if column.place is None
        and column.column.form != "other"  # whose values may be lists
        and column.column.n_distinct == n_rows
        and not column.constant
    ]


def with_identifiers(table: Any, rows: Any, names: Sequence[str]) -> Any:
    """A table with the columns that name its rows in front, where it does not have them."""
    read, source = nw.from_native(table), nw.from_native(rows)
    absent = [name for name in names if name in source.columns and name not in read.columns]
    if not absent:
        return table
    return nw.concat([source.select(absent), read], how="horizontal").to_native()


def verify_table(arguments: argparse.Namespace) -> Report:
    """Solve a small problem twice, by a fast solver and exactly by CVXPY, and compare."""
    backend = read_backend(arguments.backend)
    declared = declared_table(arguments)
    data = {name: np.asarray(codes) for name, codes in declared.data.items()}
    n_items = declared.frame.shape[0]
    if arguments.rows is not None and arguments.rows < n_items:
        chosen = np.random.default_rng(arguments.seed).choice(
            n_items, arguments.rows, replace=False
        )
        data = {name: codes[np.sort(chosen)] for name, codes in data.items()}
    limits = {"tol": arguments.tol, "max_seconds": arguments.max_seconds}
    verification = verify(declared.model, data, backend=backend, **limits)
    facts = {
        "status": verification.verdict,
        "difference": verification.difference,
        "note": verification.note,
        "fast": certificate_in_numbers(verification.fast),
        "reference": certificate_in_numbers(verification.reference),
    }
    return DONE if verification.agrees else UNFINISHED, f"{declared}\n\n{verification}", facts


def explain_table(arguments: argparse.Namespace) -> Report:
    """Check a table against a model, and list the solvers that can run it, without solving."""
    declared = declared_table(arguments)
    explanation = explain(declared.model, declared.data)
    assert isinstance(explanation, Explanation)  # of data in memory
    tables = {
        block: attrs.evolve(
            explanation.problem.tables[block],
            names=[name for member in members for name in names_of(member)],
        )
        for block, members in members_of(declared.columns).items()
    }
    # The names that the file has for columns, which blocks of arrays do not have.
    explanation = attrs.evolve(
        explanation, problem=attrs.evolve(explanation.problem, tables=tables)
    )
    facts = {
        "status": "can run" if explanation.chosen else "cannot run",
        "columns": detected_types(declared),
        "chosen": explanation.chosen,
        "why": explanation.why,
        "backends": [
            {"name": verdict.name, "can_run": verdict.can_run, "said": str(verdict)}
            for verdict in explanation.eligibilities
        ],
    }
    return DONE if explanation.chosen else UNFINISHED, f"{declared}\n\n{explanation}", facts


def output(
    arguments: argparse.Namespace, path: str | Path, endings: Iterable[str] = FORMATS
) -> Path:
    """The path of an output, checked: none of the files that the command reads."""
    named = [vars(arguments).get(name) for name in ("table", "model", "fit", "rows", "pairs")]
    named += [text for text in vars(arguments).get("types", ()) if is_document(text)]
    inputs = [find_file(name) for name in named if name is not None]
    return checked_output(Path(path), endings, inputs, arguments.overwrite)


def table_in_file(
    arguments: argparse.Namespace, path: str = "", dtypes: Mapping[str, Any] | None = None
) -> Any:
    """The table that a command is about, read from its file."""
    table = read_table_file(
        path or arguments.table,
        delimiter=arguments.delimiter,
        decimal=arguments.decimal,
        encoding=arguments.encoding,
        missing=arguments.missing,
        dates=arguments.dates,
        dtypes=dtypes,
    )
    if dtypes is None:  # new rows may lack columns
        check_names_of_gaps(arguments, column_names(table))
    return table


def check_names_of_gaps(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise a ``ModelError`` where ``--missing`` names a column that the table does not have."""
    for text in arguments.missing:
        name, equals, _ = text.partition("=")
        if name and equals and gaps_named(text, names) is None:
            remedy = meant(name, list(names), "columns")
            raise ModelError(f"--missing {text!r}: {name!r} is no column of the table; {remedy}")


def declared_table(arguments: argparse.Namespace) -> Declared[Any]:
    """The table with its model: the one of a file, or one nuclear norm over all columns."""
    table = table_in_file(arguments)
    types = types_of(arguments, table)
    gaps = gaps_by_name(arguments.missing, column_names(table))
    if arguments.model is None:
        return declare(table, types, missing=gaps)
    model, wanted = read_model(arguments.model)
    names = column_names(table)
    columns = {
        block: choose_columns(Path(arguments.model), names, block, names_in_block)
        for block, names_in_block in wanted.items()
    }
    return declare(table, types, missing=gaps, model=model, columns=columns)


def report_of(completed: Completion[Any], text: str, written: Sequence[Path]) -> Report:
    """The report of a completed table and of the files it was written to."""
    answer = completed.answer
    facts: dict[str, Any] = {
        "status": answer.status,
        "columns": completed.rows(),
        "outputs": written,
    }
    if isinstance(answer, Posterior):
        facts["evidence"] = answer.evidence
    else:
        facts["certificate"] = certificate_in_numbers(answer)
    code = DONE if answer.status in (Status.CERTIFIED, Status.CONVERGED) else UNFINISHED
    return code, f"{text}\n{list_of_files(written)}", facts


def list_of_files(written: Sequence[Path]) -> str:
    """Lines that name the files that were written, without the folder that one is in."""
    folder = Path.cwd()
    names = [path.relative_to(folder) if path.is_relative_to(folder) else path for path in written]
    return "\n".join(f"written: {name}" for name in names)


def certificate_in_numbers(answer: Fit) -> dict[str, Any]:
    """The certificate of a fit in numbers."""
    names = ("status", "message", "objective", "bound", "gap", "rank", "backend")
    return {name: getattr(answer, name) for name in names}


def detected_types(declared: Declared[Any]) -> list[dict[str, Any]]:
    """The detected types of columns."""
    return [
        {
            "column": column.name,
            "type": column.kind,
            "why": column.why,
            "missing": column.share_missing,
        }
        for column in declared.columns
    ]
