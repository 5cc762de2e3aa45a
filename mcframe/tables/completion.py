"""The answer of ``complete``: the completed table, and how good its columns are."""

from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw

from mcframe.answer import Fit
from mcframe.contracts.errors import ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import whole
from mcframe.model import Model
from mcframe.selection import CrossValidation
from mcframe.tables.column_scores import ColumnScores
from mcframe.tables.declared import Declared
from mcframe.tables.drawing import DrawnRows
from mcframe.tables.printing import lines_of
from mcframe.tables.prior_rows import ChosenPrior

__all__ = ["Completion"]


@attrs.frozen(eq=False, repr=False)
class Completion:
    """A completed table, with the fit that completed it.

    Attributes
    ----------
    table : DataFrame or Table
        In the library and with the dtypes that came in; observed entries are untouched.
    fit : Fit
        With its certificate.
    declared : Declared
        What each column was taken for.
    chosen : ChosenPrior or CrossValidation
        How the prior or the weight was chosen: ``best_weight``, and ``means``, the mean losses of
        all that were tried.
    scores : tuple of ColumnScores or None
        What was lost on held-out entries at the best, column by column of the table.
    log_likelihood : float or None
        Of Gaussian rows: that of the observed entries in standard units, under the covariance
        and the mean that EM has estimated.
    cut_short : str
        What the budget left out, in words; empty where that was nothing.
    """

    table: Any
    fit: Fit
    declared: Declared
    chosen: ChosenPrior | CrossValidation
    scores: tuple[ColumnScores | None, ...]
    log_likelihood: float | None = None
    cut_short: str = ""

    @property
    def model(self) -> Model:
        """The model that was fitted, with the chosen weight."""
        return self.fit.model

    def predict(self, name: Any) -> Any:
        """What the fit says of a column in every row: probabilities of its values, or its mean.

        As ``Declared.predict``.
        """
        return self.declared.predict(self.fit, name)

    def complete_rows(self, frame: Any, *, unseen: Literal["missing", "error"] = "missing") -> Any:
        """New rows, which were not in the table, with their holes filled: same library and dtypes.

        As ``Declared.complete_rows``, by this fit.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of the table, in any order.
        unseen : "missing" or "error", default "missing"
            What values are to the model that no row of the table has; they are never replaced.

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
        return self.declared.complete_rows(self.fit, frame, unseen=unseen)

    def draws(self, m: int, random_state: int = 0) -> list[Any]:
        """Return m completed tables whose filled entries are drawn: multiple imputation.

        In the library and with the dtypes of the table, in its order; observed entries are
        untouched. What one table says of the mean or of a regression is too sure, for the holes
        are filled with means; what m draws say, pooled by ``mc.pool``, has the uncertainty of what
        is missing.

        Each draw estimates mean and covariance by EM from rows drawn with replacement (Honaker and
        King, What to do about missing values in time-series cross-section data, American Journal
        of Political Science 54, 2010), under the prior that was chosen or, of n rows of d numbers,
        one of max(1, n / 100, d^2 / n) rows if that is weaker, which biases correlations less. It
        then draws the missing entries of each row jointly, given what is observed in it. Labels,
        levels and categories are drawn by their probabilities, one column after the other, given
        what is drawn already. Numbers are drawn from a Gaussian, and stay within bounds of their
        column and dtype. Rows are taken to be independent. Holes that depend on the missing value
        itself are not drawn as they are; see ``report``.

        Parameters
        ----------
        m : int
            How many; 20 or more for intervals.
        random_state : int, default 0
            Draw k is the same for every m.

        Raises
        ------
        ModelError
            Of ``method="likelihoods"``, which has no distribution of rows.

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
        if not isinstance(self.chosen, ChosenPrior):
            raise ModelError(
                "draws need the distribution of rows, which method='likelihoods' does not"
                " estimate; take method='gaussian' in complete"
            )
        return DrawnRows.of(self.declared, self.chosen.best_weight).tables(m, seed)

    def report(self) -> Any:
        """How well each column is predicted where it was held out, in the library of the table.

        One row for each column of the table: ``column``, ``type``, ``missing`` (a share),
        ``loss`` (of held-out entries, relative to that of the best constant: 1 is no better),
        ``error`` and ``error_of_constant`` by ``measure`` (the root mean square, the share of
        wrong labels, or how many levels off), ``auc_of_holes``, and the ``weight`` that was
        chosen: of the nuclear norm, or of the prior, in rows. Losses and errors are missing of
        columns that stand in no block.

        **For which holes they hold.** Entries were held out at random from those that are
        observed. Of Gaussian rows ``auc_of_holes`` is how well the other columns tell which
        entries are missing: the area under the curve on rows that were left out, 1/2 where they
        tell nothing. Where it is clearly above 1/2, held-out entries count by the odds of being
        missing, so that loss and errors are about those of the holes (missing at random). Where
        an entry is missing because of its own value, as where the rich do not tell their income,
        nothing that is observed says so, and errors at holes may be far larger than these.
        """
        rows = self.rows()
        columns = {name: [row[k] for row in rows] for k, name in enumerate(HEADER)}
        return nw.from_dict(columns, backend=self.declared.frame.implementation).to_native()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the report."""
        weight = self.chosen.best_weight
        rows: list[tuple[Any, ...]] = []
        for each, scores in zip(self.declared.columns, self.scores, strict=True):
            told = (str(plain(each.name)), each.kind, each.share_missing)
            if scores is None:
                rows.append((*told, None, None, None, None, None, weight))
                continue
            measure = each.modelled[0].measure
            errors = (scores.error, scores.error_of_constant)
            rows.append((*told, scores.loss, *errors, measure, scores.auc_of_holes, weight))
        return rows

    def certified(self) -> str:
        """What of the completion is certified, in words."""
        status = f"{self.fit.status} (gap {self.fit.gap:.1e})"
        if self.log_likelihood is None:
            return status
        exact = "exact" if self.fit.status == "certified" else status
        return (
            f"{exact} given the covariance, which was estimated by EM (log likelihood"
            f" {self.log_likelihood:.1f})"
        )

    def how(self) -> str:
        """What was chosen, in words."""
        if isinstance(self.chosen, ChosenPrior):
            return f"Gaussian rows, {self.chosen}"
        return f"NuclearNorm({self.chosen.best_weight:.6g})"

    def notes(self) -> list[str]:
        """What the errors hold for, and what the budget cut short, in lines."""
        scored = [
            (repr(plain(each.name)), scores)
            for each, scores in zip(self.declared.columns, self.scores, strict=True)
            if scores is not None
        ]
        weighted = [name for name, scores in scored if scores.weighted]
        said = []
        if scored and self.log_likelihood is None:
            said.append("  errors hold for entries that are missing completely at random")
        elif scored:
            said.append("  errors hold for holes that do not depend on the missing value itself")
        if weighted:
            named = ", ".join(weighted[:5])
            named += f" and {len(weighted) - 5} more" if len(weighted) > 5 else ""
            said.append(
                f"  held-out entries are weighted where other columns tell of the holes: {named}"
            )
        return [*said, f"  cut short: {self.cut_short}"] if self.cut_short else said

    def __repr__(self) -> str:
        n_filled = sum(
            int(each.column.missing.sum())
            for each in self.declared.columns
            if each.place is not None or each.taken.constant
        )
        head = [
            f"Completion: {n_filled} entries filled, {self.certified()}",
            f"  {self.how()}, chosen by held-out entries; loss 1 is that of the best constant",
        ]
        rows = [
            (name, kind, f"{missing:.0%}", *map(shown, (loss, error, constant)), measure or "")
            for name, kind, missing, loss, error, constant, measure, *_ in self.rows()
        ]
        return "\n".join([*head, *lines_of([HEADER[:-2], *rows]), *self.notes()])


HEADER = (
    *("column", "type", "missing", "loss", "error", "error_of_constant", "measure"),
    *("auc_of_holes", "weight"),
)


def shown(number: float | None) -> str:
    """A number in three digits, or nothing."""
    return "" if number is None else f"{number:.3g}"
