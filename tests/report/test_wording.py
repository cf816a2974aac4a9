"""The words of the library: none of a list in what a user reads, and no two that contradict."""

import ast
import inspect

import pytest
from sources import PATHS, ROOT, nodes_of
from verdict_texts import contradictions, forbidden_words, impossible_numbers, n_words, text_of_page

import skcalib


def messages(path):
    """String constants of a module but its docstrings, with their lines."""
    nodes = nodes_of(path)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None
    }
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in documentation:
            yield node.lineno, str(node.value)


def documentation():
    """Docstrings of the public names and of their public methods and properties."""
    modules = (skcalib, skcalib.datasets)
    for owner in (getattr(module, name) for module in modules for name in module.__all__):
        name = getattr(owner, "__name__", str(owner))
        yield name, getattr(owner, "__doc__", None)
        if inspect.isclass(owner):
            for part, value in inspect.getmembers(owner):
                home = getattr(value, "__module__", None) or "skcalib"
                told = callable(value) or isinstance(value, property)
                if told and not part.startswith("_") and home.startswith("skcalib"):
                    yield f"{name}.{part}", value.__doc__


def test_no_forbidden_word_in_messages_and_in_the_documentation():
    told = [(f"{p.relative_to(ROOT)}:{line}", t) for p in PATHS for line, t in messages(p)]
    faults = {
        f"{place}: {words}"
        for place, text in [*told, *documentation()]
        for words in forbidden_words(text or "")
    }
    assert not faults, "\n" + "\n".join(sorted(faults))


FORBIDDEN = [
    "It promises too much.",
    "a score of 0.3 promised more",
    "0.2 came true",
    "what comes true",
    "cannot be told from the rest, nor told apart",
    "Tell the models apart by --name.",
    "among several looks",
    "A finding beyond chance.",
    "The class that this speaks of.",
    "Regions that are named at the most.",
    "No range is off beyond chance.",
    "on samples that it\n    has not seen",
    "Trees seem to tell groups.",
    "the same score treats differently",
]
ALLOWED = [
    "At most three groups are named.",
    "Predicted churn averages 9 %; 6 % churned.",
    "Significant on held-out samples; groups with equal scores differ.",
    "The distribution looks normal.",
]
IMPOSSIBLE = [
    "The typical error is 11 to 139 points.",
    "accuracy 0.909 [0.779, 1.040]",
    "Observed rate 0.02 [-0.01, 0.05]",
    "Calibration error -0.0138 [-0.0261, -0.0015]",
    "Grouping loss >= 0.0003 [-0.0101, 0.0085]",
    "recalibration lowers the log loss to 0.000 (100.0 %)",
    "cross-validated log loss 0.322 -> 0.0000, Brier score 0.086 -> 0.012",
    "Brier calibration error 0.33 [0.00, 3.55]",
    "observed 104 % of the time",
    "predicted -3 %",
    "the value is nan",
    "0.5 [0.7, 0.6]",
]
POSSIBLE = [
    "Typical error: 4.7 points (95 % CI 4.1 to 5.2).",
    "Observed rate 0.05 [0.04, 0.06]",
    "O/E 1.5 [1.2, 1.9]",
    "Scaled Brier score -0.2 [-0.5, 0.1]",
    "cross-validated log loss 0.322 -> 0.0004, Brier score 0.086 -> 0.012",
    "Calibration intercept -0.7 [-0.9, -0.5]",
    "Log loss 1.2 [1.1, 1.3]",
    "100 % of the labels are of one class",
    "Typical error: up to 0.0 points (95 % upper limit).",
    "none detected (upper limit 0.002)",
]


def test_forbidden_words_and_impossible_numbers_are_found_and_no_others():
    for find, wrong, right in (
        (forbidden_words, FORBIDDEN, ALLOWED),
        (impossible_numbers, IMPOSSIBLE, POSSIBLE),
    ):
        assert [text for text in wrong if not find(text)] == []
        assert [text for text in right if find(text)] == []
    page = '<style>p {promises: 1}</style><p>Log loss<br>0.3</p><img alt="it came &amp; true">'
    text = text_of_page(page)
    assert "promises" not in text and "Log loss 0.3" in text and "it came & true" in text


ADVICE = "Recalibrate with Platt scaling: RecalibratedClassifierCV(model, PlattScaling(), cv=5)"
GROUP = {"rule": "z > 0", "observed": 0.3, "expected": 0.2, "estimate": 0.1, "low": 0.05,
         "high": 0.15, "n_samples": 100, "harm": 0.01}  # fmt: skip
TYPICAL = "Typical error: 24 points (95 % CI 23 to 25)."
DIFFER = "Groups with equal scores differ: observed 0.3 where z > 0."
CONSISTENT = {
    "headline": "Predictions are too high: mean 35.5 %, observed 5.3 %.",
    "verdict": [TYPICAL, ADVICE, DIFFER],
    "advice": ADVICE,
    "miscalibrated": True,
    "direction": "too_high",
    "event": "1",
    "mean_predicted": 0.355,
    "observed_rate": {"estimate": 0.053, "low": 0.05, "high": 0.06},
    "observed_expected_ratio": {"estimate": 0.053 / 0.355, "low": 0.13, "high": 0.17},
    "typical_error": {"estimate": 0.24, "low": 0.23, "high": 0.25},
    "suspicions": [],
    "suspicion_kinds": [],
    "named_groups": [GROUP],
    "places": [{"label": "3 to 20 %", "detected": True}],
    "recommended": "PlattScaling",
    "log_loss": {"before": 0.5, "after": 0.19},
    "brier_score": {"before": 0.2, "after": 0.1},
}


@pytest.mark.parametrize(
    "change",
    [
        {"miscalibrated": False},
        {"direction": None},
        {"direction": "too_low"},
        {"direction": "uneven"},
        {"headline": "No evidence of miscalibration."},
        {"headline": "Under-confident: predictions are not extreme enough."},
        {"verdict": ["Predictions are too low.", ADVICE, DIFFER]},
        {"verdict": [TYPICAL]},
        {"recommended": None},
        {"recommended": None, "log_loss": {"before": 0.5, "after": None},
         "brier_score": {"before": 0.2, "after": None}},
        {"log_loss": {"before": 0.5, "after": 0.6}},
        {"brier_score": {"before": 0.2, "after": 0.3}},
        {"brier_score": {"before": 0.2, "after": None}},
        {"verdict": ["Recalibration is not recommended.", ADVICE]},
        {"typical_error": {"estimate": None, "low": 0.0, "high": 0.1}},
        {"mean_predicted": 0.05},
        {"suspicions": ["All forecasts are equal."], "suspicion_kinds": ["constant"]},
        {"named_groups": []},
        {"verdict": [ADVICE, "No group was found that differs from others."]},
        {"verdict": [TYPICAL, ADVICE, DIFFER, "Features would save at least -.003."]},
        {"verdict": [TYPICAL, ADVICE, DIFFER, "Another map would not help."]},
        {"named_groups": [{**GROUP, "estimate": -0.1}]},
        {"named_groups": [{**GROUP, "low": -0.1}]},
        {"named_groups": [GROUP, {**GROUP, "harm": 0.1}]},
    ],
)  # fmt: skip
def test_contradictions_are_found(change):
    assert contradictions(CONSISTENT) == [] and n_words(CONSISTENT) < 60
    assert contradictions({**CONSISTENT, **change})
