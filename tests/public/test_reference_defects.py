"""The known defects of other packages, from the end of REFERENCE: `DEFECTS` names their tests."""

import ast
import re
from pathlib import Path

import pytest

import skcalib
from skcalib.datasets import make_widmann


def test_no_tail_is_a_difference_from_one():
    """In the whole library a distribution function is never subtracted from 1."""
    for file in Path(skcalib.__file__).parent.rglob("*.py"):
        assert not re.search(r"1(\.0)? - [\w.]*\.?(cdf|ndtr)\(", file.read_text()), file


def test_a_negative_kernel_estimate_is_no_evidence():
    """W19: the published code squares it."""
    sample = make_widmann(250, model="M1", random_state=1)
    tests = [
        skcalib.significance.distribution_free_bound(sample.y[i:], sample.y_proba[i:])
        for i in range(30)
    ]
    negative = [test for test in tests if test.estimate < 0]
    assert negative and all(test.pvalue == 1 for test in negative)


#: The words of REFERENCE, each with its test: above, or in the file that is named.
DEFECTS = {
    "a p-value of -7e-12 (1 - cdf at large n: use `sf`)": (
        "test_binary_tests.py::test_pvalues_are_never_negative"
    ),
    "a one-sided Spiegelhalter test": "test_binary_tests.py::test_spiegelhalter_is_two_sided",
    "p = 1.0 in a phantom bin": "test_formulas_binned.py::test_every_edge_and_its_neighbours",
    "nan for the classes that are not the top one": (
        "test_formulas_binned.py::test_errors_by_loops"
    ),
    "a decomposition of multiclass input read as several models": (
        "test_proper_errors.py::test_loss_is_calibration_plus_refinement"
    ),
    "a crash when a bin holds one sample": (
        "test_formulas_binned.py::test_variance_of_a_mean_residual"
    ),
    "Platt on probabilities instead of logits": (
        "test_recalibration.py::test_maps_of_one_logit_are_logistic_regressions"
    ),
}


@pytest.mark.parametrize("where", DEFECTS.values(), ids=DEFECTS)
def test_tests_of_defects_exist(where):
    file, _, name = where.rpartition("::")
    (path,) = Path(__file__).parents[1].rglob(file or Path(__file__).name)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_defect_of_the_reference_has_its_test():
    reference = Path(__file__).parents[3] / "shared" / "REFERENCE.md"
    if not reference.exists():
        pytest.skip("the reference is not here")
    # Lines that a list item was broken into are one line again.
    text = re.sub(r"\n +", " ", reference.read_text(encoding="utf-8"))
    (listed,) = re.findall(r"Known defects elsewhere, each a test here: (.*?)\n- ", text)
    defects = [re.sub(r" \(worse log loss.*", "", defect) for defect in listed.split("; ")]
    assert [defect.rstrip(".") for defect in defects] == list(DEFECTS)
