"""Proper calibration errors, refinement and sharpness."""

from skcalib.errors._representation import representation_sharpness
from skcalib.errors._terms import proper_terms
from skcalib.problem import check_problem


def proper_calibration_error(
    y_true,
    y_proba,
    *,
    loss="brier",
    notion="canonical",
    smoother=None,
    method="auto",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Calibration error of a proper score: how much loss a perfect recalibration would save.

    Estimates :math:`CE = E\, D(C, S)` with :math:`C = E[Y|S]`, where D is the divergence of the
    score (P24, G22): the squared calibration error for Brier, the Kullback-Leibler calibration
    error for the log loss. With :math:`\hat C` the smoother's estimate of C without the
    sample's own label:

    - ``"risk"``: :math:`\frac1n \sum_i L(y_i, S_i) - L(y_i, \hat C_i)`, a plain mean of paired
      differences (B26). A lower bound in expectation for any smoother and any score; the bias is
      of second order in the error of :math:`\hat C`. For a smoother with
      ``refinement="entropy"``, the default of `DirichletKernel`, the second term is the mean
      entropy :math:`H(\hat C_i)` instead (P24 eq. 14), which is no lower bound.
    - ``"direct"``: :math:`\frac1n \sum_i D(\hat C_i, S_i)` (P24 eq. 9). Never negative, biased
      upward by the variance of :math:`\hat C`.
    - ``"cross"``: for Brier, :math:`\frac1n \sum_i c \langle y_i - S_i, \hat C_i - S_i \rangle`,
      the average of "direct" and the loss-based "risk". The variance of :math:`\hat C` drops
      out; unbiased where the smoother is, and no lower bound.
    - ``"auto"``, the default: "cross" where the score is a quadratic form, as Brier is, and
      "risk" for all others. With the default smoother "cross" had a smaller error than "risk" in
      most of 90 simulated worlds (:ref:`accuracy`).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class. Rows sum to one.
    loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
        The proper score.
    notion : {"canonical", "classwise", "top_label"} or Notion, default="canonical"
        All classes at once; the mean over one-vs-rest problems, each with the binary convention
        of the score; or the confidence against being right.
    smoother : None, {"kernel", "isotonic", "binning"}, Smoother or classifier, default=None
        Estimates C. None is `LogitSmoother`; a scikit-learn classifier is cross-fitted on the
        forecasts (`CrossFitted`).
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        See above.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean and of the smoother.
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`; needed where `y_true` may lack a class.
    pos_label : label, default=None
        The class that a `y_proba` of shape (n_samples,) refers to; by default the last in order.

    Returns
    -------
    float
        The error, not rooted: squared units for Brier (halved for K = 2, as in scikit-learn),
        nats for the log loss. May be negative for "risk" and "cross", which is how an estimate of
        zero must behave; infinite if the log loss of the forecasts is.

    Raises
    ------
    ValueError
        For invalid input, for "cross" with a score that is no quadratic form, for fewer than two
        samples, and where the smoother gives probability 0 to a label under the log loss.

    See Also
    --------
    CalibrationErrorEstimator : The same with a confidence interval.
    score_decomposition : All terms of a loss at once.

    Notes
    -----
    Cost: the default smoother fits five maps of K + 1 parameters, O(n K) each; `DirichletKernel`
    is O(n^2 K). The three methods differ a lot in small samples, and need not agree.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> round(proper_calibration_error(data.y, data.y_proba[:, 1], loss="log"), 3)
    0.036
    >>> round(data.truth["log"], 3)
    0.037
    """
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    terms = proper_terms(problem, loss=loss, notion=notion, smoother=smoother, method=method)
    return terms.mean("calibration")


def refinement_loss(
    y_true,
    y_proba,
    *,
    loss="brier",
    notion="canonical",
    smoother=None,
    method="auto",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Refinement: the loss that is left when the forecasts are perfectly recalibrated.

    Estimates :math:`E\, H(C) = E\, L(Y, C)` with :math:`C = E[Y|S]`, the generalised entropy of
    the calibrated scores. Positive, lower is better. By "risk" it is estimated as the mean loss
    of :math:`\hat C` on held-out labels, which is biased upward by the error of
    :math:`\hat C`; for smoothers with ``refinement="entropy"``, the default of
    `DirichletKernel`, as the mean entropy of :math:`\hat C` (P24 eq. 15). By "cross" it is the
    mean loss minus the "cross" calibration error, which only the bias of the smoother touches.
    With the same smoother and method, mean loss = calibration error + refinement exactly, other
    than for "direct".

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, sample_weight, labels, pos_label
        As in :func:`proper_calibration_error`.
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        As in :func:`proper_calibration_error`; "direct" is the same as "risk" here.

    Returns
    -------
    float
        Refinement in the units of the loss.

    Raises
    ------
    ValueError
        As :func:`proper_calibration_error`.

    Examples
    --------
    >>> from skcalib import refinement_loss
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> round(refinement_loss(data.y, data.y_proba), 2), round(data.truth["refinement_brier"], 2)
    (0.16, 0.16)
    """
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    terms = proper_terms(problem, loss=loss, notion=notion, smoother=smoother, method=method)
    return terms.mean("refinement")


def sharpness(
    y_true,
    y_proba,
    *,
    transform=None,
    loss="brier",
    notion="canonical",
    smoother=None,
    method="auto",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Sharpness (resolution): how much of the label's uncertainty the forecasts explain.

    Estimates :math:`E\, D(C, E[Y]) = H(E[Y]) - E\, H(C)` with :math:`C = E[Y|S]` (P24 eq. 4-5):
    uncertainty minus refinement. Higher is better. It does not depend on calibration, only on the
    information in S, and never grows through a layer (P24 theorem 6.2), so it is defined for any
    representation Z: with ``transform="simplex"`` the columns of `y_proba` are features, which
    are standardised and sent into the simplex by the injective map
    :math:`z \mapsto softmax(0, z)`.

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, method, sample_weight, labels, pos_label
        As in :func:`proper_calibration_error`; for refinement as in :func:`refinement_loss`. With
        ``transform="simplex"``, `y_proba` is any real array of shape (n_samples, n_features),
        `labels` lists the classes in any order, `notion` must be "canonical", `method` must be
        "risk", which "auto" is here, and the default smoother is
        ``DirichletKernel("risk", refinement="loss")``: the entropy form is optimistic where a
        kernel overfits, and more so in more dimensions.
    transform : {None, "simplex"}, default=None
        None for probabilities; "simplex" for any representation.

    Returns
    -------
    float
        Sharpness in the units of the loss. At most the uncertainty; an estimate may be slightly
        negative where there is nothing to explain.

    Raises
    ------
    ValueError
        As :func:`proper_calibration_error`.

    Examples
    --------
    >>> from skcalib import sharpness
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(1000, random_state=0)
    >>> of_scores = sharpness(data.y, data.y_proba)
    >>> of_features = sharpness(data.y, data.X, transform="simplex")
    >>> round(of_scores, 2), round(of_features, 2)
    (0.16, 0.17)
    """
    if transform is None:
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
    elif transform == "simplex":
        return representation_sharpness(
            y_true, y_proba, loss, notion, smoother, method, sample_weight, labels
        )
    else:
        raise ValueError(f"transform must be None or 'simplex', got {transform!r}.")
    terms = proper_terms(problem, loss=loss, notion=notion, smoother=smoother, method=method)
    return terms.uncertainty - terms.mean("refinement")
