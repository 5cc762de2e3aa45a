"""A table with some of its entries hidden, and the judge of what is predicted for them."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.datasets import MultiLabel, hide

__all__ = ["Errors", "Experiment", "prepare"]

# The farthest from certainty that a log loss is charged for.
CAUTION = 1e-6
BLOCKS = ("features", "labels")
# Hidden, and seen, of each block: enough that a tenth can be set aside for validation.
FEWEST = 20


@attrs.frozen
class Errors:
    """What a method got wrong on hidden entries, as Goldberg et al. (2010) define it.

    ``labels`` is the share of wrong labels; ``features`` the sum of squared errors over the
    sum of squares of the truth.
    """

    labels: float
    features: float


@attrs.frozen(eq=False)
class Experiment:
    """The truth, NaN where nobody knows it, and which of its entries are hidden."""

    features: Array
    labels: Array
    hidden_features: Mask
    hidden_labels: Mask

    @property
    def observed(self) -> dict[str, Array]:
        """What a method may see: NaN where hidden, the blocks by name."""
        return {
            "features": np.where(self.hidden_features, np.nan, self.features),
            "labels": np.where(self.hidden_labels, np.nan, self.labels),
        }

    def means(self, block: str) -> Array:
        """Average what is observed of each column; 0 for a column with nothing observed."""
        entries = self.observed[block]
        known = ~np.isnan(entries)
        total: Array = np.where(known, entries, 0.0).sum(axis=0)
        means: Array = total / np.maximum(known.sum(axis=0), 1)
        return means

    def constant(self, block: str) -> Array:
        """Predict every entry of a block by the mean of its column."""
        constant: Array = np.tile(self.means(block), (len(self.features), 1))
        return constant

    def errors(self, features: Array, probabilities: Array) -> Errors:
        """Judge hidden entries; a label is 1 where its probability is above 0.5."""
        hidden = self.hidden_labels
        wrong = (probabilities[hidden] > 0.5) != (self.labels[hidden] == 1.0)
        truth = self.features[self.hidden_features]
        missed = features[self.hidden_features] - truth
        return Errors(float(np.mean(wrong)), ratio(float(missed @ missed), float(truth @ truth)))

    def score(self, features: Array, probabilities: Array) -> float:
        """Average the log loss of hidden labels and the squared error of hidden features.

        Each relative to that of column means: 1 is no better than means, 0 is perfect.
        """
        truth = self.features[self.hidden_features]
        missed = features[self.hidden_features] - truth
        usual = self.constant("features")[self.hidden_features] - truth
        squares = ratio(float(missed @ missed), float(usual @ usual))
        logs = ratio(self.log_loss(probabilities), self.log_loss(self.constant("labels")))
        return 0.5 * squares + 0.5 * logs

    def log_loss(self, probabilities: Array) -> float:
        """Average -log P(the true label) over hidden labels."""
        hidden = self.hidden_labels
        right = np.where(self.labels == 1.0, probabilities, 1.0 - probabilities)[hidden]
        return float(-np.mean(np.log(np.maximum(right, CAUTION))))

    def hide_more(self, share: float, rng: np.random.Generator) -> "Experiment":
        """Set observed entries aside: an experiment that never sees what is hidden here."""
        seen = self.observed
        return Experiment(
            seen["features"],
            seen["labels"],
            hide(seen["features"], share, rng),
            hide(seen["labels"], share, rng),
        )


def ratio(error: float, reference: float) -> float:
    """Divide an error by a reference, with 0 / 0 = 0 where all entries are alike."""
    if reference == 0.0:
        return 0.0 if error == 0.0 else np.inf
    return error / reference


def prepare(
    data: MultiLabel,
    *,
    hidden_features: float,
    hidden_labels: float,
    standardise: bool,
    rng: np.random.Generator,
) -> Experiment:
    """Hide shares of both blocks at random; standardise features by what is left observed.

    A column is shifted by the mean and divided by the standard deviation of its observed
    entries; one that is constant there is only shifted.

    Raises
    ------
    DataError
        Where the table is too small for entries to be hidden and seen in both blocks.
    """
    masks = hide(data.features, hidden_features, rng), hide(data.labels, hidden_labels, rng)
    for entries, mask, word in zip((data.features, data.labels), masks, BLOCKS, strict=True):
        known = int((~np.isnan(entries)).sum())
        if known - int(mask.sum()) < FEWEST or int(mask.sum()) < FEWEST:
            raise DataError(
                f"{data.name}: its {known} known {word} are too few to hide"
                f" {mask.sum() / max(known, 1):.0%} of them; take more items"
            )
    if not standardise:
        return Experiment(data.features, data.labels, *masks)
    plain = Experiment(data.features, data.labels, *masks)
    centred = data.features - plain.means("features")
    spread = np.sqrt(Experiment(centred**2, data.labels, *masks).means("features"))
    scaled = centred / np.where(spread > 0, spread, 1.0)
    return Experiment(scaled, data.labels, *masks)
