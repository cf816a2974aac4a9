"""How the numbers of a report were computed."""

from skcalib.report._numbers import percent
from skcalib.report._run import versions


def method(report):
    """Sentences: samples, estimators, units, seed and versions."""
    findings = report.findings
    level = percent(report.confidence_level)
    told = [
        _samples(findings),
        "Calibration error: what a map on the logits, with a curve where one is needed, saves that "
        f"was fitted on the other four of five folds ({level} Student intervals of paired "
        "differences); a lower bound in expectation. Isotonic regression, cross-fitted, is a "
        "second look.",
        "Recalibrators: by the log loss on the same folds. The gain is a little optimistic, "
        f"because the choice was made on these samples. A map that raises the Brier score by more "
        f"than its standard error is not advised.{_left_out(findings)}",
    ]
    if findings.grouping is not None and findings.grouping.grouping_loss is not None:
        told.append(
            "Grouping loss: trees cut the level sets of the score on one half of the samples, the "
            "other half measures, and the halves change places; without the bias of small regions, "
            "it is a lower bound. Its p-value is of permutations among neighbours in the score. "
            "The regions in words are of a coarser split into two per level set."
            + _second_look(findings.grouping.second)
        )
    told += [
        "Brier score: summed over classes, halved for two. Log loss: in nats.",
        f"random_state = {report.random_state}; "
        + ", ".join(f"{name} {number}" for name, number in versions().items())
        + ".",
    ]
    return tuple(told)


def _second_look(second):
    """The model of all features, and on how many samples."""
    if second is None:
        return ""
    return (
        " A second look: what gradient boosting of the score and all features saves on top of the "
        f"calibration curve on folds that it has not seen ({second.n_samples:,} samples), with a "
        "one-sided normal test. A look is a finding where its bound lies above zero beyond the "
        "interval and its p-value is below 0.05. Columns of categories, if any, are one-hot."
    )


def _samples(findings):
    said = f"Samples: {findings.n_samples:,}"
    if findings.test is None:
        return f"{said}."
    if findings.n_tested == findings.n_samples:
        return f"{said}, all of them in the kernel test."
    return f"{said}; {findings.n_tested:,} of them, drawn at random, in the kernel test."


def _left_out(findings):
    """The candidate that would take minutes for many probabilities."""
    if findings.n_classes == 2 or "VectorScaling" in findings.advice.names:
        return ""
    return " VectorScaling was left out, which takes long for so many probabilities."
