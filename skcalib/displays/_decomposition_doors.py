"""Constructors of `DecompositionDisplay`: probabilities, a classifier, several classifiers."""

from collections.abc import Mapping

from skcalib.displays._held_out import held_out
from skcalib.displays._terms import check_options, loss_terms
from skcalib.problem import check_problem


class FromModels:
    """Constructors that estimate the parts and draw them."""

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        X=None,
        *,
        loss="brier",
        notion="canonical",
        smoother=None,
        grouping="partition",
        confidence_level=0.95,
        random_state=0,
        sample_weight=None,
        labels=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Parts of the loss of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of such
            Probability of the positive class, or of each class; of several models by their names.
        X : array-like of shape (n_samples, n_features), default=None
            Features, or any representation, for the grouping loss; none without.
        loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
            The proper score.
        notion : {"canonical", "classwise", "top_label"} or Notion, default="canonical"
            The notion of calibration.
        smoother : None, {"kernel", "isotonic", "binning"}, Smoother or classifier, default=None
            The calibration curve, as in `CalibrationErrorEstimator`.
        grouping : {"partition", "risk"}, GroupingLossEstimator or None, default="partition"
            What estimates the grouping loss: a method of `GroupingLossEstimator`, or an estimator
            whose further settings are used; None for calibration and refinement only.
        confidence_level : float, default=0.95
            Level of the intervals.
        random_state : int, RandomState instance or None, default=0
            Seed of the grouping loss, the same for all models.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`; needed where `y_true` may lack a class.
        pos_label : label, default=None
            The positive class of a binary problem; by default the last.
        name : str, default=None
            Name of a single model; "Predictions" by default.
        ax : Axes, default=None
            Where to draw.
        **plot_params : dict
            Further arguments of `plot`.

        Returns
        -------
        DecompositionDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For invalid input, and for a model of infinite loss.

        Examples
        --------
        >>> from skcalib import DecompositionDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(1000, random_state=0)
        >>> display = DecompositionDisplay.from_predictions(
        ...     data.y, {"Forecast": data.y_proba, "Truth": data.posterior}, loss="log")
        >>> [term.name for term in display.terms], display.ax_.get_xlabel()
        (['Forecast', 'Truth'], 'Log loss in nats')
        """
        if not isinstance(y_proba, Mapping):
            y_proba = {"Predictions" if name is None else name: y_proba}
        options = check_options(loss, notion, smoother, grouping, confidence_level, random_state)
        terms = []
        for model, proba in y_proba.items():
            problem = check_problem(y_true, proba, labels=labels, pos_label=pos_label)
            terms.append(loss_terms(model, problem, X, sample_weight, options))
        display = cls(terms, confidence_level=confidence_level, unit=options.unit)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name=None, **params):
        """Parts of the loss of one classifier on held-out data.

        Parameters
        ----------
        estimator : classifier
            Fitted, unless `cv` is given.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        name : str, default=None
            Name of the model; the class of the estimator by default.
        **params : dict
            As in `from_estimators`.

        Returns
        -------
        DecompositionDisplay
            The display, drawn.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import DecompositionDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> display = DecompositionDisplay.from_estimator(GaussianNB(), X, y, cv=5, grouping=None)
        >>> print(display.terms[0])
        calibration 0.010 [0.003, 0.022], refinement 0.046
        """
        name = type(estimator).__name__ if name is None else name
        return cls.from_estimators({name: estimator}, X, y, **params)

    @classmethod
    def from_estimators(
        cls,
        estimators,
        X,
        y,
        *,
        cv=None,
        response_method="auto",
        loss="brier",
        notion="canonical",
        smoother=None,
        grouping="partition",
        confidence_level=0.95,
        random_state=0,
        sample_weight=None,
        pos_label=None,
        ax=None,
        **plot_params,
    ):
        """Parts of the loss of several classifiers on held-out data.

        Parameters
        ----------
        estimators : dict of str to classifier
            The classifiers by their names, fitted unless `cv` is given.
        X : array-like of shape (n_samples, n_features)
            Features, dense numbers unless `grouping` is None. For another representation, see
            `from_predictions`.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifiers are fitted and (X, y) is held out. Else they are cloned, and
            assessed by their out-of-fold probabilities.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        loss, notion, smoother, grouping, confidence_level, random_state
            As in `from_predictions`.
        sample_weight, pos_label, ax, **plot_params
            As in `from_predictions`; with `cv` weights are also passed to the classifiers.

        Returns
        -------
        DecompositionDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`, and if `estimators` is no dict.
        NotFittedError
            For classifiers that are not fitted, without `cv`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from skcalib import DecompositionDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0)
        >>> models = {"Bayes": GaussianNB(), "Tree": tree}
        >>> display = DecompositionDisplay.from_estimators(models, X, y, cv=5)
        >>> [round(term.loss, 3) for term in display.terms]
        [0.056, 0.066]
        """
        if not isinstance(estimators, Mapping):
            raise ValueError(
                "estimators must be a dict of classifiers by their names; for a single one use "
                "from_estimator."
            )
        options = check_options(loss, notion, smoother, grouping, confidence_level, random_state)
        terms = []
        for name, estimator in estimators.items():
            labels, proba, features, weight, classes, _ = held_out(
                estimator,
                X,
                y,
                cv=cv,
                response_method=response_method,
                sample_weight=sample_weight,
                owner=cls.__name__,
            )
            problem = check_problem(labels, proba, labels=classes, pos_label=pos_label)
            terms.append(loss_terms(name, problem, features, weight, options))
        display = cls(terms, confidence_level=confidence_level, unit=options.unit)
        return display.plot(ax=ax, **plot_params)
