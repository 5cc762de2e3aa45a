"""Links from positives only.

Question: which tags does a song deserve that nobody has given to it?

Data: 502 songs with 68 measurements of the sound and the 78 tags that at least 50 songs have
(CAL500; Turnbull and others, 2008). All links between songs and tags are known there. Four in ten
of them are recorded here, and of all other pairs nobody says whether there is a link.

Model: ``mc.RiskMixture(pu=1)``, the risk of positive and unlabeled data at a known share of links
that are not recorded (0.6), with squared losses; the sound is a second block. Plain alternatives:
the popularity of the tag; logistic losses with every pair that is not recorded taken for a no,
whose probabilities can be divided by the recorded share (Elkan and Noto, 2008).
"""

import numpy as np
from common import DATA, OURS, PLAIN, axes, data_file, save
from sklearn.metrics import roc_auc_score

import mcframe as mc
from mcframe.datasets import read_multilabel

RECORDED = 0.4
songs = read_multilabel(data_file("CAL500.npz"))
links = songs.labels[:, songs.labels.sum(axis=0) >= 50] > 0
rng = np.random.default_rng(0)
recorded = links & (rng.random(links.shape) < RECORDED)


def path_of(likelihood, kept, otherwise):
    """Fits along falling weights, given the links that are kept."""
    sound = mc.Block("sound", mc.Gaussian(), standardize=True, weight=0.05)
    model = mc.Model([sound, mc.Block("tags", likelihood, bias=True)], [mc.NuclearNorm(1.0)])
    data = {"sound": songs.features, "tags": np.where(kept, 1.0, otherwise)}
    return mc.path(model, data, weights=mc.selection.Grid(count=8, ratio=0.3), tol=1e-4)


def chosen_fit(likelihood, likelihood_of_kept, otherwise):
    """The fit at the weight that ranks held-out links, a fifth of the recorded ones, first."""
    kept = recorded & (rng.random(links.shape) < 0.8)
    path = path_of(likelihood_of_kept, kept, otherwise)
    ranks = [roc_auc_score(recorded[~kept], fit.predict("tags")[~kept]) for fit in path]
    return path_of(likelihood, recorded, otherwise)[int(np.argmax(ranks))]


def pu(share):
    """The risk of positive and unlabeled data where this share of the links is recorded."""
    return mc.RiskMixture(pu=1.0, missing_rate=1.0 - share, likelihood=mc.Gaussian())


risk = chosen_fit(pu(RECORDED), pu(0.8 * RECORDED), np.nan)
no = chosen_fit(mc.Bernoulli(), mc.Bernoulli(), 0.0).predict("tags")
answers = {
    "popularity of the tag": np.broadcast_to(recorded.mean(axis=0) / RECORDED, links.shape),
    "unrecorded taken for a no": no,
    "the same, divided by 0.4": np.minimum(no / RECORDED, 1.0),
    "positive-unlabeled risk": np.clip(risk.predict("tags"), 0.0, 1.0),
}
print(risk)
unlabeled = ~recorded
truth = links[unlabeled]
print(f"links among the unrecorded pairs: {truth.mean():.1%}")
expected = {}
for name, table in answers.items():
    p = table[unlabeled]
    area, square = roc_auc_score(truth, p), np.mean((p - truth) ** 2)
    expected[name] = p.mean()
    print(f"{name:<26} AUC {area:.3f}, expects {p.mean():.1%}, squared error {square:.4f}")

axis = axes(xlabel="predicted probability of a link", ylabel="share of links")
cuts = np.linspace(0.0, 1.0, 11)
for (name, table), colour in zip(
    answers.items(), ("tab:green", PLAIN, "tab:red", OURS), strict=True
):
    bins = np.digitize(table[unlabeled], cuts[1:-1])
    filled = [k for k in range(10) if np.sum(bins == k) >= 50]
    means = [[values[bins == k].mean() for k in filled] for values in (table[unlabeled], truth)]
    axis.plot(*means, "o-", color=colour, markersize=4, label=name)
axis.plot([0, 1], [0, 1], color=DATA, linewidth=0.8)
axis.legend(frameon=False, fontsize=8)
save(axis, "links")
# What is taken for a no has 0.4 of the links at most; the risk should not miss by as much.
assert abs(expected["positive-unlabeled risk"] - truth.mean()) < 0.07
assert expected["unrecorded taken for a no"] < truth.mean() - 0.07
