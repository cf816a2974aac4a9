"""Notions of calibration: the laws, and what each one means on a few rows."""

import numpy as np
import pytest
from public_functions import others

import skcalib as s
from skcalib.data.notions import Auto, Canonical, ClassGroups, Classwise, Notion, TopK, TopLabel
from skcalib.testing import check_notion

NOTIONS = [
    Auto(), Canonical(), Classwise(), Classwise(reduce="sum"), TopLabel(), TopK(1), TopK(2),
    TopK(3), TopK(), ClassGroups([[0], [1]]), ClassGroups([[1]]), ClassGroups([[0, 3], [1, 9]]),
]  # fmt: skip
EVERY = [*NOTIONS, *others(s.data.notions, Notion, NOTIONS)]
FORECAST = np.array([[0.1, 0.2, 0.4, 0.3], [0.4, 0.4, 0.1, 0.1], [0, 0, 0, 1.0]])
LABELS = np.eye(4)[[3, 1, 3]]


def images(notion, forecast=FORECAST, target=LABELS):
    return list(notion.problems(forecast, target))


@pytest.mark.parametrize("notion", EVERY, ids=repr)
def test_laws(notion):
    check_notion(notion)


def test_every_class_against_the_rest_and_the_top_label():
    problems = images(Classwise())
    assert len(problems) == 4
    for k, (forecast, target) in enumerate(problems):
        np.testing.assert_allclose(forecast, np.column_stack([1 - FORECAST[:, k], FORECAST[:, k]]))
        np.testing.assert_array_equal(target[:, 1], LABELS[:, k])
    ((forecast, target),) = images(TopLabel())
    np.testing.assert_allclose(forecast[:, 1], [0.4, 0.4, 1])
    np.testing.assert_array_equal(target[:, 1], [0, 0, 1])  # class 1 ties with class 0, the first


def test_auto_by_name_is_one_score_at_a_time(binary, multiclass):
    """Everywhere a notion is accepted by its name."""
    errors = [
        s.calibration_error, s.ks_calibration_error, s.integrated_calibration_index,
        s.proper_calibration_error, s.calibration_upper_bound, s.kernel_calibration_error,
    ]  # fmt: skip
    for (y, proba), name, event in (
        (binary, "canonical", "class 1"), (multiclass, "top_label", "top label"),
    ):  # fmt: skip
        for error in errors:
            assert error(y, proba, notion="auto") == error(y, proba, notion=name)
        for error in errors[:3]:
            assert error(y, proba) == error(y, proba, notion=name)
        assert s.corp_decomposition(y, proba).curves[0].event == event


def test_top_k_ranks_in_decreasing_order():
    ((forecast, target),) = images(TopK(2))
    np.testing.assert_allclose(forecast, [[0.4, 0.3, 0.3], [0.4, 0.4, 0.2], [1, 0, 0]])
    np.testing.assert_array_equal(target, [[0, 1, 0], [0, 1, 0], [1, 0, 0]])
    ((_, target),) = images(TopK(3), np.full((50, 50), 0.02), np.eye(50))  # the order of equals
    np.testing.assert_array_equal(target[:3, :3], np.eye(3))
    assert target[3:, 3].all()


def test_groups_sum_their_columns():
    ((forecast, target),) = images(ClassGroups([[0, 3], [1]]))
    np.testing.assert_allclose(forecast, [[0.4, 0.2, 0.4], [0.5, 0.4, 0.1], [1, 0, 0]])
    np.testing.assert_array_equal(target, [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    ((forecast, _),) = images(ClassGroups([[0, 1], [2, 3]]))  # no rest
    assert forecast.shape == (3, 2)


def test_no_probability_is_below_zero_where_rounding_left_one_above_one():
    above = np.array([[1 + 1e-7, 0, 0], [0.2, 0.5, 0.3]])
    for notion in (Classwise(), TopLabel(), TopK(1), ClassGroups([[0]])):
        for forecast, _ in images(notion, above, np.eye(3)[:2]):
            assert forecast.min() >= 0
            np.testing.assert_allclose(forecast.sum(axis=1), above.sum(axis=1), rtol=0, atol=1e-15)


def test_refusals():
    for groups, words in (
        ([], "groups must be disjoint, non-empty"),
        ([[0, 1], [1]], "groups must be disjoint"),
        ([[0, 7]], "groups name columns"),
        ([[-1]], "groups name columns"),
        ([[0, 1, 2, 3]], "all classes in one group"),
    ):
        with pytest.raises(ValueError, match=words):
            images(ClassGroups(groups))
