"""What a report is made from: labels with probabilities, or a classifier with data."""

import numpy as np

from skcalib._validation import check_weight, check_y
from skcalib.estimators._response import held_out_proba, take_rows
from skcalib.problem import check_problem, event_last


class FromData:
    """Makes a report of what is given, validated once."""

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        X=None,
        *,
        name="forecasts",
        sample_weight=None,
        labels=None,
        pos_label=None,
        confidence_level=0.95,
        random_state=0,
        n_jobs=None,
        verbose=0,
    ):
        """Report on labels and probabilities of held-out samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the event, or of each class. Rows sum to one. A Series, or a data
            frame of one column, whose name names a class (``p_churn``, ``churn``,
            ``churn_proba``) holds the probability of that class.
        X : array-like of shape (n_samples, n_features), default=None
            Features or any representation, for the grouping loss.
        name : str, default="forecasts"
            Name of the model.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`.
        pos_label : label, default=None
            The event of a binary problem: the class that the report is about, and that a
            `y_proba` of shape (n_samples,) is the probability of. By default the class that a
            single column names, or the last class.
        confidence_level : float, default=0.95
            Level of all intervals.
        random_state : int, RandomState instance or None, default=0
            Seed.
        n_jobs : int, default=None
            Problems of a notion, candidates and folds in parallel.
        verbose : int, default=0
            Above 0, each stage is printed with its time.

        Returns
        -------
        CalibrationReport
            The report.

        Raises
        ------
        ValueError
            For labels, probabilities or weights that do not fit, a name of a column that names no
            class or another one than `pos_label`, and a `pos_label` for more than two classes.
        """
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        problem = event_last(problem, pos_label)
        if X is not None:
            X = _weighted_rows(X, check_weight(sample_weight, len(y_true)))
        return cls(
            problem,
            name=name,
            features=X,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        cv=None,
        name=None,
        sample_weight=None,
        pos_label=None,
        confidence_level=0.95,
        response_method="auto",
        random_state=0,
        n_jobs=None,
        verbose=0,
    ):
        """Report on a classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted, and (X, y) held out; or any classifier, with `cv`.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifier is used as it is. Else it is cloned, fitted on the folds and
            judged by its out-of-fold probabilities.
        name : str, default=None
            Name of the model; by default its class, or that of the last step of a pipeline and
            of the best estimator of a search.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the evaluation; not passed to the classifier.
        pos_label : label, default=None
            The event of a binary problem: the class that the report is about; by default the last
            of the classes.
        confidence_level : float, default=0.95
            Level of all intervals.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        random_state : int, RandomState instance or None, default=0
            Seed.
        n_jobs : int, default=None
            Folds of `cv`, problems of a notion and candidates in parallel.
        verbose : int, default=0
            Above 0, each stage is printed with its time.

        Returns
        -------
        CalibrationReport
            The report.

        Raises
        ------
        ValueError
            For labels or weights that do not fit, an object without probabilities or decision
            values, and a `pos_label` that is no class or for more than two classes.
        """
        y = check_y(y, name="y")
        proba, classes, tested = held_out_proba(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            n_jobs=n_jobs,
            owner=cls.__name__,
        )
        weight = check_weight(sample_weight, len(y))
        problem = check_problem(
            y[tested],
            proba[tested],
            sample_weight=weight[tested],
            labels=classes,
            pos_label=pos_label,
        )
        problem = event_last(problem, pos_label)
        return cls(
            problem,
            name=_kind(estimator) if name is None else name,
            features=take_rows(X, np.flatnonzero(tested & (weight > 0))),
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            has_estimator=True,
        )


def _weighted_rows(X, weight):
    """Features of the samples that count."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows != len(weight):
        raise ValueError(
            f"X and y_true must have the same number of samples: X has {n_rows}, y_true has "
            f"{len(weight)}."
        )
    return take_rows(X, np.flatnonzero(weight > 0))


def _kind(estimator):
    """The class of a model, inside of searches and pipelines."""
    if hasattr(estimator, "best_estimator_"):
        return _kind(estimator.best_estimator_)
    if hasattr(estimator, "steps"):
        return _kind(estimator.steps[-1][1])
    return type(estimator).__name__
