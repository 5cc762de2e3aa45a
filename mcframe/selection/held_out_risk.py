"""The risk of a held-out part with its unlabeled entries, for positive labels alone."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.validators import a_type, as_given, block_name
from mcframe.contracts.wording import wording
from mcframe.fitting.fit_answer import Fit
from mcframe.model.held_out import Held
from mcframe.model.problem import cells_of_loss
from mcframe.numerics.operators import LowRank
from mcframe.risks import RiskMixture
from mcframe.selection.criteria import OfBlocks, ScoredFit, criterion_name


def is_risk(instance: object, attribute: "attrs.Attribute[RiskMixture]", value: object) -> None:
    """An attrs validator: a convex mixture of risks with a loss for unlabeled entries, or None."""
    fits = isinstance(value, RiskMixture) and value.reads_unlabeled and value.convex
    if value is not None and not fits:
        raise ModelError(
            f"HeldOutRisk: risk={as_given(value)} was given; a convex mixture of risks with a"
            f" share of PU or NU is needed, such as {wording().word('RiskMixture', pu=1.0)} with a"
            " missing_rate and a likelihood"
        )


@attrs.frozen
class HeldOutRisk(OfBlocks):
    """The mean risk of the held-out part of a block, its unlabeled entries included.

    Held-out labels are those of a share q of all cells: q is the share of the labels that is held
    out. Of the unlabeled cells the same share belongs to the held-out part. Which ones they are
    has no influence on the fit, so that the mean over all choices is taken, and nothing is drawn:

    ``(sum over held-out labels of l(z, y) + q sum over unlabeled cells of l(z, unlabeled))
    / (n_held + q n_unlabeled)``

    with the losses of a ``RiskMixture`` at its rate of missing labels, or at the propensities of
    the labels, before any were held out. As held-out labels are unlabeled in the fit, whichever
    they are, this is an unbiased estimate of the mean loss l(z, y) at the complete labels of the
    held-out part, if the rate or the propensities are right. Positive labels alone are enough,
    where ``HeldOutLoss`` and ``LabelError`` need both kinds. It may be negative.

    Weights of blocks and of entries are not used. It is for blocks without an offset. Sums over
    unlabeled cells take Gram matrices with the squared loss, and a pass over blocks of rows with
    the logistic loss. NaN if a fold holds out no label of the block.

    Parameters
    ----------
    block : str, default "labels"
    risk : RiskMixture, optional
        The risk that is estimated, by default that of the model. To compare models with other
        shares, or with other rates, give one for all of them; its likelihood is that of the
        models. It needs the missing rate of all labels, not that of a fold.

    Raises
    ------
    ModelError
        Before anything is fitted, if the block has no risk of unlabeled entries, or another
        likelihood; and where its data have an offset, or no propensities that the risk needs.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> likes = np.where(rng.random((30, 8)) < 0.3, 1.0, np.nan)
    >>> risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Gaussian())
    >>> model = mc.Model([mc.Block("likes", risk)], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(
    ...     model, {"likes": likes}, criterion=mc.selection.HeldOutRisk("likes"), cv=3
    ... )
    >>> chosen.best_weight > 1.0
    True
    """

    block: str = attrs.field(default="labels", validator=block_name)
    risk: RiskMixture | None = attrs.field(default=None, validator=is_risk)

    def __call__(self, fit: ScoredFit, held: Mapping[str, Held]) -> float:
        """The mean risk on this fold."""
        if not isinstance(fit, Fit):
            raise ModelError(
                f"criterion {criterion_name(self)}: path gave {a_type(fit)}, which does not have"
                " the data that it was fitted to; a Fit is needed"
            )
        self.check(fit.model)
        (name,) = self.names(held)
        entries, table = held[name], fit.problem.tables[name].observed_entries()
        if table.offset is not None:
            raise ModelError(
                f"criterion {criterion_name(self)}: block {name!r} has an offset, with which the"
                " losses of unlabeled cells are not summed; take HeldOutLoss, or leave it out"
            )
        if not entries.values.size:
            return np.nan
        labels = [entries, *([] if entries.hidden is None else [entries.hidden]), table]
        rows, columns, values = (
            np.concatenate([getattr(part, what) for part in labels])
            for what in ("rows", "columns", "values")
        )
        risk = self.risk_of(fit, name, values, table.n_entries / values.size)
        if risk.propensities and table.propensities is None:
            raise ModelError(
                f"criterion {criterion_name(self)}: the risk has propensities, and the data of"
                f" block {name!r} have none; give them in Observations(propensity=...)"
            )
        scored = np.full(table.shape[0], not entries.of_new_rows)
        scored[rows[: values.size - table.n_entries]] = True
        in_scored, latent = scored[rows], predictors_of(fit, name)
        loss = risk.unlabeled
        assert loss is not None  # as ``is_risk`` and ``refusal`` demand
        cells = cells_of_loss(
            loss,
            1.0,
            (int(np.count_nonzero(scored)), table.shape[1]),
            (np.cumsum(scored) - 1)[rows[in_scored]],
            columns[in_scored],
        )
        z = latent.at(rows[in_scored], columns[in_scored])
        unlabeled = cells.at(LowRank(latent.left[scored], latent.right), z).value
        n_held, n_labels = entries.values.size, int(np.count_nonzero(in_scored))
        n_unlabeled = int(np.count_nonzero(scored)) * table.shape[1] - n_labels
        labeled = float(np.sum(risk.value(z[:n_held], entries.observations)))
        share = n_held / n_labels
        return (labeled + share * unlabeled) / (n_held + share * n_unlabeled)

    def risk_of(self, fit: Fit, name: str, labels: Array, kept: float) -> RiskMixture:
        """The risk at the rates of all labels, of which a fold has kept this share."""
        table = fit.problem.tables[name]
        risk = fit.likelihood(name).keeping_labels(1.0 / kept) if self.risk is None else self.risk
        bound = risk.bound_to(table.shape, labels)
        assert isinstance(bound, RiskMixture)
        return bound

    def refusal(self, likelihood: Likelihood, block: str) -> str | None:
        """Reason why a block without this risk cannot be scored, with a remedy; None if it can."""
        word = type(likelihood).__name__
        if self.risk is None and not (
            isinstance(likelihood, RiskMixture) and likelihood.reads_unlabeled
        ):
            return (
                f"has {word}, whose entries without a label carry no loss; give the risk that is"
                f" to be estimated, HeldOutRisk({block!r}, risk=...), or take"
                f" HeldOutLoss({block!r})"
            )
        if self.risk is not None and self.risk.likelihood != likelihood.of_label:
            return (
                f"has the likelihood {as_given(likelihood.of_label)}, and the risk has"
                f" {as_given(self.risk.likelihood)}, for which z means something else; give both"
                " the same"
            )
        if isinstance(likelihood, RiskMixture) and not likelihood.convex:
            return f"has a {word} that is not convex; take HeldOutLoss({block!r})"
        return None


def predictors_of(fit: Fit, name: str) -> LowRank:
    """The predictors of a block in all cells, Z plus effects, in factors."""
    problem = fit.problem
    latent = fit.point.latent.columns(problem.columns(name))
    if name not in fit.effects:
        return latent
    layout, effects = problem.layout(name), fit.effects[name]
    left, right = np.ones((latent.shape[0], 2)), np.ones((latent.shape[1], 2))
    left[:, 0] = layout.intercept(effects)
    if layout.n_row_effects:
        left[:, 0] += layout.row_effects(effects)
    right[:, 1] = layout.biases(effects) if layout.n_biases else 0.0
    return LowRank(np.hstack([latent.left, left]), np.hstack([latent.right, right]))
