"""What the page of Wang et al. (TMCC) shows of its trials."""

from papers.pages import Numbers
from papers.report import ruled
from papers.tmcc import CENTRED, FEATURES, METHODS, TARGETS

__all__ = ["PAGE"]

NUMBERS = Numbers()
TRIALS = "tmcc-fig2"


def against(method: str) -> str:
    """Write the differences of a method's errors from those of each other one, within trials."""
    blocks, lines = (FEATURES, *TARGETS), []
    for setting in NUMBERS.report(TRIALS).experiment.settings():
        for other in (each for each in METHODS if each != method):
            pairs = [(f"{method}, {block}", f"{other}, {block}") for block in blocks]
            if not NUMBERS.values(TRIALS, setting, pairs[0][0]):
                continue
            cells = [NUMBERS.difference(TRIALS, setting, *pair, 4) for pair in pairs]
            lines.append([setting, f"{method} - {other}", *cells])
    return "\n".join(ruled(["setting", "difference", *blocks], lines))


def tuning_said() -> str:
    """Say what tuning chose, with the losses by tau_1; older trials have not stored that."""
    columns = {"0": "0", "1e-4": "0.0001", "1e-3": "0.001", "1e-2": "0.01"}
    lines, chosen = [], []
    for setting in NUMBERS.report(TRIALS).experiment.settings():
        if NUMBERS.values(TRIALS, setting, "tau_1 chosen"):
            losses = [
                NUMBERS.known(TRIALS, setting, f"loss at tau_1 = {key}")
                for key in columns.values()
            ]
            lines.append([setting, *losses])
            chosen.append(f"{NUMBERS.known(TRIALS, setting, 'tau_1 chosen')} ({setting})")
    if not lines:
        return (
            "These trials were computed by older code, which did not store the weights that tuning"
            " chose."
        )
    table = "\n".join(ruled(["setting", *columns], lines))
    return (
        f"Tuning chose tau_1 = {', '.join(chosen)}. The table has the mean loss of the held-out"
        f" entries by tau_1 (0: without calibration), where it is stored:\n\n{table}"
    )


def weights_said() -> str:
    """Say why the tasks gain little in the non-linear case, where what that needs is stored."""
    setting, blocks = "non-linear", (*TARGETS, FEATURES)
    if not NUMBERS.values(TRIALS, setting, f"size of {FEATURES}"):
        return (
            "We cannot tell the reason, since the tuned weights of these trials were not stored."
        )
    sizes = ", ".join(
        f"{block} {NUMBERS.known(TRIALS, setting, f'size of {block}')}" for block in blocks
    )
    joint = NUMBERS.known(TRIALS, setting, "weight x n D of MC.0")
    # Both are stored times all cells, but this model's loss is divided by the cells of the tasks,
    # three blocks of four.
    alone = NUMBERS.known(TRIALS, setting, "weight x n D of tasks alone", 3 / 4)
    return (
        "The weights point to the cause. The unscaled targets, as printed, are larger than the"
        f" features (root mean squares {sizes}, at the same noise), so the features add little."
        " The wider table needs a larger weight of the nuclear norm (beside the undivided loss"
        f" {joint} for MC.0 and {alone} for the tasks alone), because the noise of 2000 columns"
        " has a larger norm than that of 1500. A larger weight shrinks more."
    )


def centred_said() -> str:
    """Say what calibration is worth with centred factors, where that has been run."""
    gap = NUMBERS.difference(TRIALS, f"linear{CENTRED}", "TMCC, features", "MC.0, features", 4)
    if gap[0] not in "+-":
        return "Too few trials of this setting have been computed so far to show it."
    return f"There the error of TMCC in the features differs from that of MC.0 by {gap}."


PAGE = {
    "against": against,
    "tuning_said": tuning_said,
    "weights_said": weights_said,
    "centred_said": centred_said,
}
