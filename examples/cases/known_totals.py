"""Known totals.

Question: can published means repair a sample that is not a random one?

Data: 442 diabetes patients, scikit-learn's bundled table. Laboratory values are missing more often
where they are low, since tests are ordered for patients who seem ill (simulated here). The means
over all women and over all men are known, as from a register. Wanted are means in groups that the
register does not show: thirds by age, for each sex.

Model: a nuclear norm over standardised columns with ``mc.Calibration``, by which the predicted
means over women and over men are exactly the known ones. Plain alternatives: the mean of those
tested in a group; the same, moved by the error that it makes for the whole sex.
"""

import numpy as np
from common import OURS, PLAIN, axes, save
from sklearn.datasets import load_diabetes

import mcframe as mc

frame = load_diabetes(as_frame=True, scaled=False).data
labs = ["s1", "s2", "s3", "s4", "s5", "s6"]
rng = np.random.default_rng(0)
score = (frame[labs] - frame[labs].mean()) / frame[labs].std()
tested = rng.random(score.shape) < 1.0 / (1.0 + np.exp(-1.2 * score))
table = frame.assign(**frame[labs].where(tested))

thirds = np.searchsorted(frame["age"].quantile([1 / 3, 2 / 3]), frame["age"])
group = [frame["sex"], thirds]
register = frame.groupby("sex")[labs].mean()
truth = frame.groupby(group)[labs].mean()


def completed_by(*terms):
    """The table completed with a nuclear norm and further terms.

    The weight is a hundredth of the one at which Z is 0, so small since the columns are few.
    """
    block = mc.Block("x", mc.Gaussian(), standardize=True)
    plain = mc.Model([block], [mc.NuclearNorm(1.0)])
    weight = mc.weight_max(plain, {"x": table}) / 100.0
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(weight), *terms]), {"x": table})
    print(fit)
    return fit.impute("x")


# One equation for each sex: the mean of a column over its rows. NaN asks nothing of a column.
A = np.array([(frame["sex"] == sex) / np.sum(frame["sex"] == sex) for sex in register.index])
known = mc.Calibration("x", A=A, B=register.reindex(columns=frame.columns).to_numpy())
sampled = table.groupby(group)[labs].mean()
answers = {
    "mean of those tested": sampled,
    "moved to the known mean": sampled + (register - table.groupby("sex")[labs].mean()),
    "nuclear norm": completed_by().groupby(group)[labs].mean(),
    "nuclear norm and known means": completed_by(known).groupby(group)[labs].mean(),
}
errors = {name: (found - truth) / frame[labs].std() for name, found in answers.items()}
print(f"{1 - tested.mean().mean():.0%} of the laboratory values are missing")
print("root mean square error of 36 means, in standard deviations of the columns:")
sizes = {name: np.sqrt(np.mean(np.square(error))) for name, error in errors.items()}
for name, size in sizes.items():
    print(f"  {name:<29} {size:.3f}")

axis = axes(xlabel="error of the mean of a group, in standard deviations")
for k, (name, error) in enumerate(errors.items()):
    values = np.sort(error.to_numpy().ravel())
    places = k + np.linspace(-0.3, 0.3, values.size)
    axis.plot(values, places, ".", color=OURS if "known means" in name else PLAIN)
axis.axvline(0.0, color="0.7")
axis.set_yticks(range(len(errors)), errors)
save(axis, "known_totals")
# Without selection, means of about 38 tested patients would have errors near 1 / sqrt(38) = 0.16.
# Known means that repaired the selection must do better than that, and than the plain shift.
assert sizes["nuclear norm and known means"] < min(0.1, sizes["moved to the known mean"])
