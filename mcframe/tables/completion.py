"""The answer of ``complete``: the completed table, and the errors of its columns."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.errors import ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import whole
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.selection import CrossValidation
from mcframe.storage import save
from mcframe.tables.coding import Choice
from mcframe.tables.columns import listed
from mcframe.tables.declaring import Declared, lines_of
from mcframe.tables.held_out import ColumnScores
from mcframe.tables.rows_choice import RowsChoice
from mcframe.tables.table_model import DrawnRows, TableModel


@attrs.frozen(eq=False, repr=False)
class Completion:
    """A completed table, with the posterior or the fit that filled it.

    Attributes
    ----------
    table : DataFrame or Table
        The completed table, in its own library and dtypes; observed entries are unchanged.
    answer : Posterior or Fit
        See ``posterior`` and ``fit``.
    declared : Declared
        The type of each column. For the posterior all columns are numbers of one block.
    chosen : RowsChoice or CrossValidation
        The choice of the prior or of the weight: ``best_weight``, and ``means``, the mean losses
        of all candidates.
    scores : tuple of ColumnScores or None
        The losses on held-out entries at the best candidate, one for each column of the table.
    """

    table: Any
    answer: Posterior | Fit
    declared: Declared
    chosen: RowsChoice | CrossValidation
    scores: tuple[ColumnScores | None, ...]

    @cached_property
    def table_model(self) -> TableModel | None:
        """The table as rows of numbers; None for ``method="optimum"``."""
        if isinstance(self.answer, Posterior):
            return TableModel(self.declared, self.answer)
        return None

    @property
    def posterior(self) -> Posterior:
        """The posterior of the rows; a ``ModelError`` for ``method="optimum"``."""
        if not isinstance(self.answer, Posterior):
            raise ModelError("method='optimum' has no posterior; leave method out in complete")
        return self.answer

    @property
    def fit(self) -> Fit:
        """The fit with its certificate; a ``ModelError`` for the posterior, which has none."""
        if not isinstance(self.answer, Fit):
            raise ModelError(
                "a posterior is no optimum and has no certificate: see completed.posterior, or"
                " take method='optimum' in complete"
            )
        return self.answer

    @property
    def sd(self) -> Any:
        """Expected errors of the filled entries: a table of numbers, in the library of the table.

        For numbers, counts and dates this is the standard deviation of the entry, in its unit
        (days for dates). For labels, levels and categories it is 1 minus the probability of the
        filled value. It is 0 at observed entries and missing where nothing was filled in. See
        ``interval`` for both ends of an interval.
        """
        found, columns = self.rows_of("standard deviations").sd, []
        for each in self.declared.columns:
            missing = each.column.missing
            numbers = np.where(missing & (not each.is_filled), np.nan, 0.0)
            if each.name in found:
                numbers[missing] = found[each.name]
            columns.append(numbers)
        names = [each.name for each in self.declared.columns]
        return self.declared.like_frame(names, np.column_stack(columns))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that hold the missing entry with this probability.

        Two tables in the library and with the dtypes of the table, which have its columns of
        numbers, counts and dates. At holes stand the ends, within the bounds of the column, and
        whole numbers are rounded outwards; at observed entries stands what was observed. Of
        labels, levels and categories see ``sd`` and ``predict``.

        Parameters
        ----------
        level : float, default 0.9
            Between 0 and 1: the probability under the posterior. How many entries such intervals
            really hold is told by ``completed.posterior.conformalize()``.

        Raises
        ------
        ModelError
            Of ``method="optimum"``, which has no distribution of rows, or of another level.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> completed = mc.complete(frame)
        >>> lower, upper = completed.interval(0.9)
        >>> bool(lower["height"][2] < completed.table["height"][2] < upper["height"][2])
        True
        """
        return self.rows_of("intervals").interval(level)

    def rows_of(self, what: str) -> TableModel:
        """The table as rows of numbers, or a ``ModelError``."""
        if self.table_model is None:
            raise ModelError(
                f"{what} need the distribution of rows, which method='optimum' does not"
                " estimate; take method='posterior' in complete"
            )
        return self.table_model

    @property
    def model(self) -> Model:
        """The model that was fitted, with the chosen weight."""
        return self.answer.model

    def predict(self, name: Any) -> Any:
        """Predictions of a column in every row: probabilities of its values, or its mean.

        See ``Declared.predict``.
        """
        return self.declared.predict(self.answer, name)

    def complete_rows(self, frame: Any, *, unseen: Literal["missing", "error"] = "missing") -> Any:
        """New rows with their missing entries filled, in their own library and dtypes.

        As ``Declared.complete_rows``, with this fit or posterior. The rows need not be in the
        table.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of the table, in any order.
        unseen : "missing" or "error", default "missing"
            Values that no row of the table has count as missing for the model, or raise an error.
            They are never replaced.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> completed = mc.complete(frame)
        >>> completed.complete_rows(pd.DataFrame({"height": [1.85], "size": [None]}))
           height size
        0    1.85    L
        """
        return self.declared.complete_rows(self.answer, frame, unseen=unseen)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the completed table into a file, which ``mc.load`` reads.

        Stored are the table as it was given and as it was filled, the types, codes and
        scores of its columns, and the posterior or the fit: about fifteen times the
        table. One of 100,000 x 20 took 243 MB and a second.
        What is loaded answers all that this one does, with the same bits, draws included;
        frames come back in their library and with their dtypes.

        A file that is there is replaced at once when the new one is whole and on the disk; a
        process that dies before, or a full disk, leaves it as it was. The file is a zip of arrays
        and JSON as ``numpy.savez`` writes one, without pickle, under exactly this path.

        Parameters
        ----------
        path : str or Path
            Usually with the ending ``.npz``.

        Returns
        -------
        Path

        Raises
        ------
        ModelError
            Where the completed table holds what no file can: objects in its columns
            that are no numbers, texts or times.
        DataError
            Where the file cannot be written.

        Examples
        --------
        >>> import os, tempfile, pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> completed = mc.complete(frame)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = mc.load(completed.save(os.path.join(folder, "completed.npz")))
        >>> again.table.equals(completed.table)
        True
        """
        return save(self, path)

    def draws(self, m: int, random_state: int = 0) -> list[Any]:
        """Return m completed tables with random draws in the missing entries: multiple imputation.

        The tables have the library, dtypes and order of the table; observed entries are unchanged.
        ``table`` is filled with means, so standard errors computed from it are too small. Analyse
        each of the m tables and combine the answers by ``mc.pool``, which includes the uncertainty
        of the missing entries.

        Each draw estimates means and covariances again from rows drawn with replacement (Honaker
        and King, What to do about missing values in time-series cross-section data, American
        Journal of Political Science 54, 2010). The prior is the chosen one, or for n rows of d
        numbers one of max(1, n / 100, d^2 / n) rows if that is weaker, which biases correlations
        less. The missing entries of each row are then drawn jointly, given its observed entries.
        Labels, levels and categories are drawn by their probabilities, one column after the other,
        given what is drawn already. Numbers are drawn from the mixture, within the bounds of their
        column and dtype. For a wide table factors are drawn from their posterior, and labels given
        the observed entries. Rows are assumed to be independent. The draws do not model entries
        that are missing because of their own value; see ``report``.

        Parameters
        ----------
        m : int
            The number of tables; 20 or more for intervals.
        random_state : int, default 0
            Draw k is the same for every m.

        Raises
        ------
        ModelError
            For ``method="optimum"``, which has no distribution of rows.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> tables = mc.complete(frame).draws(20)
        >>> len(tables), tables[0].isna().to_numpy().any()
        (20, np.False_)
        """
        m, seed = whole(m, "m", least=1), whole(random_state, "random_state", 0)
        rows, chosen = self.rows_of("draws"), self.chosen
        assert isinstance(chosen, RowsChoice)
        return DrawnRows.of(rows.declared, rows.posterior, chosen).tables(m, seed)

    def report(self) -> Any:
        """Errors of each column on held-out entries, as a table in the library of the table.

        There is one row for each column: ``column``, ``type``, ``missing`` (a share), ``loss``
        (held-out loss relative to filling with the mean or mode: 1 is no better), ``error`` and
        ``error_of_constant`` by ``measure`` (the root mean square, the share of wrong labels, or
        the mean distance in levels), ``sd`` (the error at missing entries that the posterior
        expects; for levels the probability that one is wrong), ``auc_of_holes``, and the chosen
        ``weight`` (of the nuclear norm, or of the prior in rows). Losses and errors are missing
        for columns that are in no block.

        **When they hold.** The held-out entries are a random sample of the observed ones. For the
        posterior ``auc_of_holes`` measures how well the other columns predict which entries are
        missing: the area under the ROC curve on left-out rows, 1/2 if they predict nothing. If it
        is clearly above 1/2, held-out entries are weighted by their odds of being missing, so that
        loss and errors are those of missing entries (missing at random). If an entry is missing
        because of its own value, as when the rich do not tell their income, no observed entry
        shows it, and errors at missing entries may be far larger.
        """
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in HEADER}
        return nw.from_dict(columns, backend=self.declared.frame.implementation).to_native()

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the report."""
        rows = []
        sds = {} if self.table_model is None else self.table_model.sd
        for each, scores in zip(self.declared.columns, self.scores, strict=True):
            row = dict.fromkeys(HEADER) | {
                "column": str(plain(each.name)),
                "type": each.kind,
                "missing": each.share_missing,
                "weight": self.chosen.best_weight,
            }
            if each.name in sds:
                largest = max(float(np.max(sds[each.name])), np.finfo(float).tiny)
                shares = sds[each.name] / largest  # squares of sds may overflow
                row["sd"] = largest * float(
                    np.mean(shares)
                    if isinstance(each.coding, Choice)
                    else np.sqrt(np.mean(np.square(shares)))
                )
            if scores is not None:
                row |= {name: getattr(scores, name) for name in SCORES}
                row["measure"] = each.modelled[0].measure
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        missing = [each.column.missing.sum() for each in self.declared.columns if each.is_filled]
        answer, how = self.answer, str(self.chosen)
        if isinstance(answer, Posterior):
            status = f"posterior {answer.status} (log evidence at least {answer.evidence:.1f})"
        else:
            status = f"{answer.status} (gap {answer.gap:.1e})"
            how = f"NuclearNorm({self.chosen.best_weight:.6g})"
        lines = [
            f"Completion: {sum(missing)} entries filled, {status}",
            f"  {how}, chosen by held-out entries; loss 1 is no better than a constant",
        ]
        shown = [name for name in HEADER if name not in ("auc_of_holes", "weight")]
        table = [[cell(row[name], name == "missing") for name in shown] for row in self.rows()]
        lines += lines_of([shown, *table])
        if any(scores is not None for scores in self.scores):
            how = "no entry is missing because of its own value"
            if self.table_model is None:
                how = "entries are missing completely at random"
            lines.append(f"  errors assume that {how}")
        weighted = [
            repr(plain(each.name))
            for each, scores in zip(self.declared.columns, self.scores, strict=True)
            if scores is not None and scores.weighted
        ]
        if weighted:
            told = "  held-out entries are weighted where other columns predict missingness"
            lines.append(f"{told}: {listed(weighted)}")
        return "\n".join(lines)


# The scores of a column in the report, and all of its columns.
SCORES = ("loss", "error", "error_of_constant", "auc_of_holes")
HEADER = (
    *("column", "type", "missing", "loss", "error", "error_of_constant", "measure"),
    *("sd", "auc_of_holes", "weight"),
)


def cell(value: Any, is_share: bool) -> str:
    """A value of the report as text: a number in three digits, a share in per cent, or nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0%}" if is_share else f"{value:.3g}"
