"""Scorers: errors for scikit-learn's searches and cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

from sklearn import metrics
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from skcalib._util.messages import shown
from skcalib._util.parameters import check_parameters_of, checks_parameters, completes_docstrings
from skcalib._util.types import CV, ArrayLike, Label, MatrixLike, RandomState, ResponseMethod
from skcalib._util.validation import check_indices, look_up
from skcalib.data.labels import check_y
from skcalib.data.notions import Canonical, Multilabel
from skcalib.data.problem import problem_of
from skcalib.error_intervals.quantities import by
from skcalib.estimators.classifiers import label_proba, proba_and_classes
from skcalib.grouping import GroupingLossEstimator
from skcalib.recalibration import IdentityRecalibrator, ModelAverageScaling
from skcalib.recalibration.held_out import held_out_losses, resolve_recalibrator
from skcalib.risk_models.decisions import decision_regret, net_benefit, score_of_decision
from skcalib.scores import LossLike, resolve_loss, weighted_mean
from skcalib.smoothers._base import check_folds


class Scorer:
    """Base class: ``scorer(estimator, X, y, *, sample_weight=None)``, higher is better.

    Supports metadata routing, accepts weights from searches if routing is disabled, and can be
    pickled. Subclasses implement ``_value(estimator, X, y, sample_weight)``, an error or a score.
    """

    greater_is_better = False

    def __init__(self) -> None:
        self._sample_weight: bool | str | None = None

    def _value(self, estimator, X, y, sample_weight):
        raise NotImplementedError

    def __call__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike | None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Score of a fitted classifier on (X, y); higher is better."""
        value = self._checked_value(estimator, X, y, sample_weight)
        return value if self.greater_is_better else -value

    def _checked_value(self, estimator, X, y, sample_weight):
        check_indices(X=X, y=y, sample_weight=sample_weight)
        y = y if self._is_multilabel() else check_y(y, name="y")
        return self._value(estimator, X, y, sample_weight)

    def _is_multilabel(self):
        """Whether the labels are an indicator matrix, which the metric validates."""
        return isinstance(getattr(self, "kwargs", {}).get("notion"), Multilabel)

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request `sample_weight` in metadata routing: True, False, None or an alias."""
        self._sample_weight = sample_weight
        self.get_metadata_routing()  # raises for invalid requests
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Metadata that the scorer requests."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._sample_weight)
        return request

    def _accept_sample_weight(self):
        """Used by scikit-learn's searches if metadata routing is disabled."""
        return True


@completes_docstrings
class ProbaScorer(Scorer):
    r"""Scorer of a metric of probabilities that uses the classes of the fitted classifier.

    Like ``make_scorer(metric, response_method="predict_proba")``, with two additions. It takes the
    classes of the columns from ``estimator.classes_``, so it supports string labels, binary and
    multiclass problems, and folds without a class. A label that is missing in the training data has
    probability 0. With ``notion=Multilabel()`` the labels are an indicator matrix, and the
    classifier is fitted to such matrices.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, *, labels, sample_weight, **kwargs)`` -> float.
    greater_is_better : bool, default=False
        False for errors: the scorer returns minus the metric.
    **kwargs
        Further arguments of the metric.
    """

    def __init__(
        self,
        metric: Callable[..., float],
        *,
        greater_is_better: bool = False,
        response_method: ResponseMethod = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.metric = metric
        self.greater_is_better = greater_is_better
        self.response_method = response_method
        self.kwargs = kwargs

    def _value(self, estimator, X, y, sample_weight):
        if self._is_multilabel():
            proba = label_proba(estimator, X, response_method=self.response_method)
            return self.metric(y, proba, sample_weight=sample_weight, **self.kwargs)
        proba, classes = proba_and_classes(estimator, X, y, response_method=self.response_method)
        return self.metric(y, proba, labels=classes, sample_weight=sample_weight, **self.kwargs)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.kwargs.items())
        sign = "" if self.greater_is_better else "neg "
        return f"{type(self).__name__}({sign}{self.metric.__name__.lstrip('_')}{options})"


class GroupingScorer(Scorer):
    """Scorer of the grouping loss, which needs the features: minus its lower bound.

    Parameters
    ----------
    **kwargs
        Arguments of :class:`~skcalib.GroupingLossEstimator`. By default the seed is 0 and there is
        no permutation test.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.kwargs = {"random_state": 0, "n_permutations": 0, **kwargs}

    def _value(self, estimator, X, y, sample_weight):
        inspector = GroupingLossEstimator(estimator, **self.kwargs)
        return inspector.fit(X, y, sample_weight=sample_weight).grouping_loss_

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.kwargs.items())
        return f"{type(self).__name__}(neg grouping_loss{options})"


@completes_docstrings
class DecisionRegretScorer(ProbaScorer):
    """Scorer of a decision: minus what recalibration would save.

    The scorer returns minus the part ``calibration`` of :func:`~skcalib.decision_regret`, in units
    of the cost. That part is a lower bound in expectation. For a calibrated classifier the score
    may be above 0 by chance. Give either `threshold` or `costs`.

    As with every calibration error, uninformative classifiers may reach the best value. Search by
    the cost itself (``make_scorer`` of your cost) or by a proper score, and monitor this one.

    Parameters
    ----------
    threshold : float, default=None
        Act where the probability of the event exceeds it. The best threshold is the cost of a false
        alarm divided by the sum of the costs of a false alarm and of a miss. With two classes the
        event is the positive class; with more, it is that the predicted class is right.
    costs : array-like of shape (n_classes, n_decisions), default=None
        Cost of each decision for each class, in the order of ``estimator.classes_``.
    pos_label : label, default=None
        The positive class of a `threshold`; by default the last one of ``estimator.classes_``.

    Raises
    ------
    ValueError
        Unless exactly one of `threshold` and `costs` is given, and valid.

    See Also
    --------
    skcalib.decision_regret : The parts of the cost, with intervals.
    """

    def __init__(
        self,
        threshold: float | None = None,
        *,
        costs: ArrayLike | None = None,
        pos_label: Label = None,
        response_method: ResponseMethod = "auto",
    ) -> None:
        score_of_decision(threshold, costs)  # raises for invalid ones
        options: dict[str, Any] = {"threshold": threshold, "costs": costs, "pos_label": pos_label}
        decision = {name: value for name, value in options.items() if value is not None}
        super().__init__(_calibration_regret, response_method=response_method, **decision)


def _calibration_regret(y_true, y_proba, **options):
    one_event = "costs" not in options and y_proba.shape[1] > 2
    notion = "top_label" if one_event else "canonical"
    return decision_regret(y_true, y_proba, notion=notion, **options).calibration.estimate


class _RecalibratedLoss(Scorer):
    """Base class: the losses of a classifier before and after a cross-fitted recalibrator."""

    def __init__(
        self,
        loss: LossLike = "log",
        recalibrator: BaseEstimator | str | None = None,
        cv: CV = 5,
        random_state: RandomState = 0,
        response_method: ResponseMethod = "auto",
    ) -> None:
        super().__init__()
        self.loss = loss
        self.recalibrator = recalibrator
        self.cv = cv
        self.random_state = random_state
        self.response_method = response_method
        check_parameters_of(self)
        resolve_loss(loss)
        self._map()  # both raise for invalid ones

    def _map(self):
        default = self.recalibrator is None
        return ModelAverageScaling() if default else resolve_recalibrator(self.recalibrator)

    def _mean_losses(self, estimator, X, y, sample_weight, maps):
        """Mean loss of each of `maps`, fitted without the fold on which it is evaluated."""
        proba, classes = proba_and_classes(estimator, X, y, response_method=self.response_method)
        problem = problem_of(y, proba, classes, sample_weight)
        problem.require_order(Canonical(), resolve_loss(self.loss))
        folds = check_folds(self.cv, problem.target, random_state=self.random_state)
        (losses,), weight, _ = held_out_losses(
            maps,
            problem.forecast,
            problem.labels,
            classes=classes,
            folds=[test for _, test in folds],
            scores=(resolve_loss(self.loss),),
            weight=problem.sample_weight,
        )
        return [float(weighted_mean(loss, weight)) for loss in losses]

    def __repr__(self) -> str:
        parameters = f"loss={self.loss!r}, recalibrator={self.recalibrator!r}, cv={self.cv!r}"
        return f"{type(self).__name__}({parameters})"


class RefinementScorer(_RecalibratedLoss):  # numpydoc ignore=PR02
    r"""Scorer of the refinement: minus the loss that remains after recalibration.

    The samples are divided into folds :math:`F_1, \dots, F_k`. The recalibrator is fitted to the
    forecasts of all folds but one, which gives a map :math:`g_{-j}`, and is evaluated on the fold
    that was left out. The score is minus

    .. math:: \hat R = \frac{\sum_j \sum_{i \in F_j} w_i\, L\bigl(y_i, g_{-j}(s_i)\bigr)}
        {\sum_i w_i} .

    For any recalibrator this is at least the refinement :math:`E\, L(Y, E[Y|S])` in expectation
    (Berta and others, arXiv:2501.19195, 2025). Choose by it where the chosen model
    is recalibrated afterwards: the calibration error, which recalibration removes, then does not
    affect the choice.

    Parameters
    ----------
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        The loss L.
    recalibrator : recalibrator or str, default=None
        The map: any object with ``fit(P, y)`` and ``predict_proba(P)``, such as a recalibrator or a
        Pipeline of them; or "auto" (`StackedRecalibrator`), "temperature", "isotonic", "platt"
        ("sigmoid") or "beta". None is :class:`~skcalib.recalibration.ModelAverageScaling`. It is
        cloned for each fold.
    cv : int or splitter, default=5
        Number of folds of the samples that are scored, or a splitter whose test sets are the folds;
        None is five. A whole number gives shuffled folds, as many as there are samples at most.
        They are stratified by label where each class has as many samples as there are folds, and
        not otherwise.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of a whole number. With a whole number, models that are scored on the
        same labels have the same folds, so their scores are paired.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        As in `ProbaScorer`.

    Raises
    ------
    ValueError
        For invalid parameters, and for fewer than two samples or folds.

    See Also
    --------
    DecompositionScorer : The loss, its calibration part and the refinement at once.
    skcalib.refinement_loss : The same of forecasts, without a classifier.

    Notes
    -----
    The unit is that of the loss. The cost is that of one fit for each fold. The score is minus
    infinity where the map gives probability 0 to a held-out label under the log loss. The default
    map replaces forecasts of exactly 0. With the default map and `cv`, and fewer
    than 5,000 samples, the score is minus ``refinement_loss(y, P, loss=loss, method="risk")``, up
    to the forecasts beyond those of the other folds, where the map continues as a line; with more
    samples, one Newton step may stand for a fit, with nearly the same result. Use that function
    where the stages of one model are compared, as in early stopping.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import RecalibratedClassifierCV
    >>> from skcalib.scorers import RefinementScorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GridSearchCV(
    ...     GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, scoring=RefinementScorer())
    >>> best = GaussianNB(**search.fit(X, y).best_params_)
    >>> recalibrated = RecalibratedClassifierCV(best).fit(X, y)
    """

    def _value(self, estimator, X, y, sample_weight):
        return self._mean_losses(estimator, X, y, sample_weight, [self._map()])[0]


class DecompositionScorer(_RecalibratedLoss):  # numpydoc ignore=PR02
    """Scorer of a loss and of its two parts: a dict of three scores from one prediction.

    The keys are ``"loss"``, minus the mean loss; ``"refinement"``, the score of
    :class:`RefinementScorer`; and ``"calibration"``, minus the part that the recalibrator removes,
    which is the first minus the second. Pass the object as ``scoring`` to `GridSearchCV`,
    `RandomizedSearchCV` or `cross_validate`, and one of the keys to a search as ``refit``. Each
    candidate predicts once. `cross_val_score` and halving searches accept one number only: pass
    `RefinementScorer` to them.

    ``"calibration"`` may be above 0 where the forecasts are calibrated, by the noise of the map. It
    is minus infinity where only the loss without the map is infinite, infinity where only that with
    the map is, and 0 where both are.

    Parameters
    ----------
    loss, recalibrator, cv, random_state, response_method
        As in :class:`RefinementScorer`.

    Raises
    ------
    ValueError
        As :class:`RefinementScorer`.

    See Also
    --------
    skcalib.score_decomposition : The parts of a loss of forecasts.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib.scorers import DecompositionScorer
    >>> search = GridSearchCV(
    ...     GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, scoring=DecompositionScorer("brier"),
    ...     refit="refinement")
    >>> results = search.fit(*load_breast_cancer(return_X_y=True)).cv_results_
    >>> for name in ("loss", "calibration", "refinement"):
    ...     print(name, results[f"mean_test_{name}"].round(3))
    loss [-0.056 -0.083]
    calibration [-0.011 -0.016]
    refinement [-0.045 -0.067]
    """

    def __call__(  # type: ignore[override]
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike | None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> dict[str, float]:
        """Scores of a fitted classifier on (X, y), by name; higher is better."""
        return self._checked_value(estimator, X, y, sample_weight)

    def _value(self, estimator, X, y, sample_weight):
        maps = [IdentityRecalibrator(), self._map()]
        loss, refinement = self._mean_losses(estimator, X, y, sample_weight, maps)
        gain = 0.0 if loss == refinement else loss - refinement  # both may be infinite
        return {"loss": -loss, "calibration": -gain, "refinement": -refinement}


_SCORERS = {
    **{
        name: ProbaScorer(quantity.function, **quantity.options)
        for name, quantity in by("scorer").items()
    },
    "neg_log_refinement": RefinementScorer("log"),
    "neg_brier_refinement": RefinementScorer("brier"),
    "neg_decision_regret": DecisionRegretScorer(threshold=0.5),
    "net_benefit": ProbaScorer(net_benefit, greater_is_better=True, threshold=0.5),
    "neg_grouping_loss": GroupingScorer(),
}


globals().update(_SCORERS)  # each is an attribute of the module
if TYPE_CHECKING:

    def __getattr__(name: str) -> Scorer: ...


@checks_parameters
def get_scorer(name: str) -> Scorer:
    """Return a new scorer by name.

    scikit-learn has no registry for scorers of other packages, so pass the object:
    ``GridSearchCV(..., scoring=skcalib.get_scorer("neg_brier_calibration_error"))``. A calibration
    error alone as the target of a search favours uninformative models (a constant forecast of the
    base rate is calibrated). Search by a proper score such as "neg_log_loss" or "neg_brier_score",
    and monitor the calibration error as well.

    "neg_decision_regret" and "net_benefit" have a threshold of one half, and "neg_log_refinement"
    and "neg_brier_refinement" have a fixed map. For others use ``DecisionRegretScorer(0.2)``,
    ``ProbaScorer(skcalib.risk_models.net_benefit, greater_is_better=True, threshold=0.2)`` and
    ``RefinementScorer(recalibrator="beta")`` of ``skcalib.scorers``. The net benefit is a gain and
    keeps its sign; "neg_net_benefit" is accepted as its name, too.

    Parameters
    ----------
    name : str
        One of :func:`~skcalib.get_scorer_names`.

    Returns
    -------
    Scorer
        Higher is better: errors come with a minus sign.

    Raises
    ------
    ValueError
        For an unknown name.

    See Also
    --------
    get_scorers : Several scorers at once.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skcalib import get_scorer
    >>> scoring = {"loss": "neg_brier_score",
    ...     "calibration": get_scorer("neg_brier_calibration_error")}
    >>> search = GridSearchCV(
    ...     DecisionTreeClassifier(random_state=0, min_samples_leaf=20), {"max_depth": [2, 4]},
    ...     scoring=scoring, refit="loss")
    >>> _ = search.fit(*load_breast_cancer(return_X_y=True))
    >>> search.cv_results_["mean_test_calibration"].shape
    (2,)
    """
    name = "net_benefit" if isinstance(name, str) and name == "neg_net_benefit" else name
    return deepcopy(look_up(name, _SCORERS, "name"))


def get_scorer_names() -> list[str]:
    """Names accepted by :func:`~skcalib.get_scorer`, sorted.

    Returns
    -------
    list of str
        The names.

    See Also
    --------
    get_scorer : The scorer of a name.

    Examples
    --------
    >>> from skcalib import get_scorer_names
    >>> get_scorer_names()[:3]
    ['neg_brier_calibration_error', 'neg_brier_refinement', 'neg_decision_regret']
    """
    return sorted(_SCORERS)


@checks_parameters
def get_scorers(names: Sequence[str]) -> dict[str, Callable[..., float]]:
    """Several scorers by name, as a dict for a multimetric ``scoring``.

    Use it where scikit-learn accepts a list of names. scikit-learn looks names up in its own
    registry, which does not contain those of other packages. Names of both packages may be mixed.

    Parameters
    ----------
    names : list of str
        Names of :func:`~skcalib.get_scorer_names` or of ``sklearn.metrics.get_scorer_names``.

    Returns
    -------
    dict of str to scorer
        In the order given.

    Raises
    ------
    ValueError
        For an unknown or repeated name.

    See Also
    --------
    get_scorer : A single scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import get_scorers
    >>> scoring = get_scorers(["neg_log_loss", "neg_log_calibration_error"])
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> results = cross_validate(GaussianNB(), X, y, scoring=scoring)
    >>> sorted(results)[2:]
    ['test_neg_log_calibration_error', 'test_neg_log_loss']
    """
    listed = isinstance(names, Iterable) and not isinstance(names, (str, type))
    if not listed or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names must be a list of names of scorers, got {shown(names)}.")
    theirs = metrics.get_scorer_names()
    unknown = [name for name in names if name not in _SCORERS and name not in theirs]
    if unknown or len(set(names)) < len(names):
        problem = f"unknown: {', '.join(map(repr, unknown))}" if unknown else "named twice"
        raise ValueError(
            f"names must be different names of scikit-learn's scorers or of "
            f"{', '.join(map(repr, _SCORERS))}; {problem}."
        )
    return {
        name: get_scorer(name) if name in _SCORERS else metrics.get_scorer(name) for name in names
    }
