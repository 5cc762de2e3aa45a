"""Which cases of a test with the marker ``some`` the default run has."""

import itertools
from types import SimpleNamespace

import pytest

from .conftest import pytest_collection_modifyitems


def often(lists, *arguments, **numbers):
    """The cases that stay, by the places of their values in some lists with names for each."""
    items = []
    for places in itertools.product(*(range(length) for length in lists.values())):
        markers = {"some": pytest.mark.some(*arguments, **numbers).mark}
        params = {
            name: place
            for names, place in zip(lists, places, strict=True)
            for name in names.split(", ")
        }
        items.append(
            SimpleNamespace(
                get_closest_marker=markers.get,
                iter_markers=lambda name: [SimpleNamespace(args=(names,)) for names in lists],
                add_marker=lambda added, markers=markers: markers.update(slow=added.mark),
                callspec=SimpleNamespace(params=params),
                parent=SimpleNamespace(nodeid="test_laws.py"),
                originalname="test_law",
                markers=markers,
            )
        )
    pytest_collection_modifyitems(items)
    slow = [item.markers["slow"] for item in items if "slow" in item.markers]
    assert all(marker.args == arguments for marker in slow)
    return [tuple(item.callspec.params.values()) for item in items if "slow" not in item.markers]


def test_every_value_of_every_parameter_stays():
    cases = often({"word": 3, "scale": 2, "seed": 5}, 0.1)
    assert cases == [(0, 0, 0), (0, 1, 3), (1, 0, 4), (1, 1, 1), (2, 0, 2)]


def test_numbers_and_lists_say_which_values_there_are_and_lists_of_pairs_stay_together():
    assert often({"word": 3, "seed": 9}, 0.1, seed=2) == [(0, 0), (1, 1), (2, 0)]
    assert often({"word, value": 4, "seed": 9}, 0.1, value=[1, 3], seed=1) == [
        (1, 1, 0),
        (3, 3, 0),
    ]


def test_a_name_that_is_no_parameter_is_refused():
    with pytest.raises(AssertionError, match="no parameters"):
        often({"word": 3, "seed": 2}, 0.1, sead=1)


def test_one_case_that_is_asked_for_stays():
    assert often({"word": 1, "seed": 1}, 0.1, seed=[4]) == [(0, 0)]


@pytest.mark.parametrize("shape", [(1, 2), (3, 4)])
@pytest.mark.parametrize(("word", "scale"), [("a", 1), ("b", 2), ("c", 3)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.some(0, seed=3)
def test_cases_of_the_default_run_are_those(request, shape, word, scale, seed):
    if not request.node.get_closest_marker("slow"):
        assert (shape[0], word, scale, seed) in {(1, "a", 1, 0), (3, "b", 2, 1), (1, "c", 3, 2)}
