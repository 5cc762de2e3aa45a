"""Search over the weights of blocks, one at a time."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.selection import CoordinateSearch, HeldOutLoss, RelativeError, search_block_weights

X = np.random.default_rng(0).standard_normal((20, 4))
NAMES = ("a", "b", "c")
DATA = {name: X + k for k, name in enumerate(NAMES)}
MODEL = mc.Model([mc.Block(name, mc.Gaussian()) for name in NAMES], [mc.NuclearNorm(1.0)])


def bowl(model, data, weights):
    """Made-up scores: lowest at the weight 4 of the second block, 1 of the third, 0.5 of the norm.

    ``data`` says which fold it is: folds differ in level, not in the differences.
    """
    level = float(np.nansum(data["a"])) % 1.0
    b, c = (np.log2(model.block(name).weight) for name in ("b", "c"))
    for weight in weights:
        yield level + (b - 2.0) ** 2 + c**2 + np.log2(weight / 0.5) ** 2


def itself(fit, held):
    return fit


def searched(**options):
    options = {
        "criterion": itself,
        "path": bowl,
        "weights": [1.0, 0.5, 0.25],
        "cv": 3,
    } | options
    return search_block_weights(MODEL, DATA, **options)


def weights_of(model):
    return [block.weight for block in model.blocks]


def test_the_search_walks_one_block_at_a_time():
    found = searched()
    assert isinstance(found, CoordinateSearch)
    assert weights_of(found.best_model) == [1.0, 4.0, 1.0]
    assert found.best_model.terms == (mc.NuclearNorm(0.5),)
    first, *others = found.steps
    assert (first.block, first.weight, first.taken) == (None, 0.5, True)
    assert [(step.block, step.taken) for step in others] == [
        *(("b", True), ("c", False)),
        *(("b", False), ("c", False)),
    ]
    assert others[0].block_weight == 4.0
    assert others[0].mean == pytest.approx(first.mean - 4.0)


def test_further_rounds_go_further():
    far = {"factors": [2.0]}
    assert weights_of(searched(rounds=1, **far).best_model) == [1.0, 2.0, 1.0]
    assert weights_of(searched(rounds=2, **far).best_model) == [1.0, 4.0, 1.0]
    assert len(searched(rounds=9, **far).steps) == 1 + 3 * 2


def test_a_gain_within_the_error_of_the_differences_is_not_gone_to():
    def noisy(model, data, weights):
        own = model.block("b").weight
        lucky = np.nansum(data["a"]) > np.nansum(X) * 0.6  # one fold or two gain, the others lose
        for _ in weights:
            yield 1.0 if own == 1.0 else (0.0 if lucky else 1.9)

    found = searched(path=noisy, weights=[1.0])
    assert weights_of(found.best_model) == [1.0, 1.0, 1.0]
    assert not any(step.taken for step in found.steps[1:])


@pytest.mark.filterwarnings("ignore:the lowest mean score is at")
def test_every_step_is_a_cross_validation_on_the_same_folds(model, table):
    options = {"criterion": HeldOutLoss("features"), "count": 3, "cv": 2, "tol": 1e-2}
    found = search_block_weights(model, table, factors=[0.5], rounds=1, random_state=3, **options)
    blocks = [model.blocks[0], attrs.evolve(model.blocks[1], weight=0.25)]
    by_hand = mc.cross_validate(
        attrs.evolve(model, blocks=blocks), table, random_state=3, **options
    )
    assert found.steps[1].mean == by_hand.means[by_hand.best]
    assert found.steps[1].weight == by_hand.best_weight
    assert found.steps[1].block_weight == 0.25


def test_a_generator_draws_once_for_all_steps():
    seen = []

    def watching(model, data, weights):
        seen.append(np.isnan(data["a"]).tobytes())
        return bowl(model, data, weights)

    searched(path=watching, random_state=np.random.default_rng(1))
    assert len(set(seen)) == 3
    assert len(seen) > 6


def test_what_was_tried_is_printed():
    lines = repr(searched()).splitlines()
    assert lines[0] == "CoordinateSearch: 5 steps, by itself"
    assert lines[2].split()[:2] == ["as", "given"]
    assert lines[3].split()[:3] == ["'b'", "4", "0.5"]
    assert lines[3].endswith("*")
    assert not lines[4].endswith("*")


def test_an_edge_is_said_of_the_best_alone():
    with pytest.warns(UserWarning, match="score is at the largest weight") as said:
        searched(weights=[0.25, 0.2, 0.1])
    assert len(said) == 1


def test_an_interruption_keeps_the_steps_before():
    calls = []

    def stopping(model, data, weights):
        calls.append(1)
        if len(calls) > 3 + 4 * 3:
            raise KeyboardInterrupt
        return bowl(model, data, weights)

    found = searched(path=stopping)
    assert [step.block for step in found.steps] == [None, "b"]
    assert weights_of(found.best_model) == [1.0, 4.0, 1.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"factors": []}, r"factors=\[\] were given; a list of numbers above 0"),
        ({"factors": [1.0, 2.0]}, "without 1"),
        ({"factors": [-1.0]}, "a list of numbers above 0"),
        ({"factors": 2.0}, "factors=2.0 were given"),
        ({"rounds": 0}, "rounds=0 was given"),
        ({"checkpoint": "file.npz"}, "checkpoint was given, which a search does not write"),
        ({"random_state": 1.5}, "random_state=1.5 was given"),
        ({"criterion": RelativeError}, "criterion is the class RelativeError"),
    ],
)
def test_wrong_options_are_named(change, named):
    with pytest.raises(mc.ModelError, match=named):
        searched(**change)


def test_one_block_has_no_weight_to_search_for():
    alone = mc.Model(MODEL.blocks[:1], MODEL.terms)
    with pytest.raises(mc.ModelError, match="the block 'a' alone, whose weight is one with that"):
        search_block_weights(alone, {"a": X}, criterion=HeldOutLoss())
    with pytest.raises(mc.ModelError, match="a Model is needed"):
        search_block_weights([MODEL], DATA, criterion=HeldOutLoss())
