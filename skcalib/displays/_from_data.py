"""Constructors of `ReliabilityDisplay`: probabilities, a classifier, a cross-validation."""

from sklearn.utils import check_random_state

from skcalib._validation import check_y
from skcalib.displays._curves import check_options, reliability_curves
from skcalib.estimators._response import align_classes, classifier_proba, take_rows
from skcalib.problem import check_problem


class FromData:
    """Constructors that compute the curves and draw them."""

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        *,
        strategy="isotonic",
        n_bins=None,
        notion="auto",
        band="auto",
        confidence_level=0.95,
        n_resamples=200,
        random_state=0,
        sample_weight=None,
        labels=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Reliability diagram of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class.
        strategy : {"isotonic", "quantile", "uniform", "kernel", "smooth"} or Smoother, \
                default="isotonic"
            The curve. Of smoothers, partitions are drawn as bins, others as curves.
        n_bins : int, default=None
            Number of bins for "quantile" and "uniform", 10 if None; refused for other curves.
        notion : {"auto", "top_label", "classwise"} or Notion, default="auto"
            The probability of the positive class of a binary problem, and the confidence of the
            predicted class otherwise; the confidence; or a panel for each of at most 25 classes.
        band : {"auto", "consistency", "confidence"} or None, default="auto"
            The band, see `ReliabilityDisplay`; by default "confidence" for ``strategy="smooth"``
            and "consistency" for other curves.
        confidence_level : float, default=0.95
            Level of the band, pointwise, and of the interval in the legend.
        n_resamples : int, default=200
            Draws of labels behind a band, at least 2 / (1 - confidence_level) - 1.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`; needed where `y_true` may lack a class.
        pos_label : label, default=None
            The positive class of a binary problem; by default the last.
        name : str, default=None
            Name in the legend.
        ax : Axes or array of Axes, default=None
            Where to draw.
        **plot_params : dict
            Further arguments of `plot`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For invalid input, unknown options, `n_bins` for a curve without bins, too few
            resamples for the level, more than 25 panels, a notion with more than two columns, and
            a kernel on a single sample.

        Examples
        --------
        >>> from skcalib import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions(
        ...     [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.8, 0.9], band=None)
        >>> display.curves[0].prob_true
        array([0. , 0. , 0.5, 0.5, 1. , 1. ])
        """
        options = check_options(strategy, n_bins, notion, band, confidence_level, n_resamples)
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        curves = reliability_curves(problem, pos_label, options, check_random_state(random_state))
        display = cls(curves, name=name, confidence_level=confidence_level, band=options.band)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        response_method="auto",
        strategy="isotonic",
        n_bins=None,
        notion="auto",
        band="auto",
        confidence_level=0.95,
        n_resamples=200,
        random_state=0,
        sample_weight=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Reliability diagram of a fitted classifier on held-out data.

        Parameters
        ----------
        estimator : classifier
            Fitted.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax;
            "auto" does so only where there is no predict_proba.
        strategy, n_bins, notion, band, confidence_level, n_resamples, random_state
            As in `from_predictions`.
        sample_weight, pos_label, ax, **plot_params
            As in `from_predictions`.
        name : str, default=None
            Name in the legend; the class of the estimator by default.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`, and for estimators without probabilities or decision values.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import ReliabilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> classifier = GaussianNB().fit(X[::2], y[::2])
        >>> display = ReliabilityDisplay.from_estimator(classifier, X[1::2], y[1::2])
        >>> print(display.ax_.get_xlabel(), "|", display.name)
        Predicted probability of class 1 | GaussianNB
        """
        y = check_y(y, name="y")
        proba = classifier_proba(estimator, X, response_method=response_method)
        proba, classes = align_classes(proba, estimator.classes_, y)
        return cls.from_predictions(
            y,
            proba,
            strategy=strategy,
            n_bins=n_bins,
            notion=notion,
            band=band,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
            sample_weight=sample_weight,
            labels=classes,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **plot_params,
        )

    @classmethod
    def from_cv_results(
        cls,
        cv_results,
        X,
        y,
        *,
        response_method="auto",
        strategy="isotonic",
        n_bins=None,
        notion="auto",
        band=None,
        confidence_level=0.95,
        n_resamples=200,
        random_state=0,
        sample_weight=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Reliability diagram of a cross-validation: a curve for each fold, on its test samples.

        Each fold has a classifier of its own, so their curves are not pooled. The legend shows the
        mean of their calibration errors and its standard deviation over folds.

        Parameters
        ----------
        cv_results : dict
            What ``sklearn.model_selection.cross_validate`` returns with
            ``return_estimator=True, return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            Features of the cross-validation.
        y : array-like of shape (n_samples,)
            Labels of the cross-validation.
        band : {"auto", "consistency", "confidence"} or None, default=None
            The band of each fold, see `ReliabilityDisplay`.
        response_method, strategy, n_bins, notion, confidence_level, n_resamples, random_state
            As in `from_estimator`.
        sample_weight, pos_label, name, ax, **plot_params
            As in `from_estimator`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn; ``line_`` is the list of the curves of the folds.

        Raises
        ------
        ValueError
            As `from_estimator`, and for results without estimators and indices.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.model_selection import cross_validate
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import ReliabilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> results = cross_validate(
        ...     GaussianNB(), X, y, cv=3, return_estimator=True, return_indices=True)
        >>> len(ReliabilityDisplay.from_cv_results(results, X, y).line_)
        3
        """
        if "estimator" not in cv_results or "indices" not in cv_results:
            raise ValueError(
                "cv_results lacks 'estimator' or 'indices': call cross_validate with "
                "return_estimator=True and return_indices=True."
            )
        options = check_options(strategy, n_bins, notion, band, confidence_level, n_resamples)
        y, rng = check_y(y, name="y"), check_random_state(random_state)
        curves = []
        tests = cv_results["indices"]["test"]
        for estimator, test in zip(cv_results["estimator"], tests, strict=True):
            if max(test) >= len(y):
                raise ValueError(
                    f"cv_results refers to sample {max(test)}, but y has {len(y)} samples: pass "
                    "the X and y of the cross-validation."
                )
            proba = classifier_proba(estimator, take_rows(X, test), response_method=response_method)
            proba, classes = align_classes(proba, estimator.classes_, y[test])
            weight = None if sample_weight is None else take_rows(sample_weight, test)
            problem = check_problem(
                y[test], proba, sample_weight=weight, labels=classes, pos_label=pos_label
            )
            curves += reliability_curves(problem, pos_label, options, rng)
        if name is None:
            name = type(cv_results["estimator"][0]).__name__
        display = cls(curves, name=name, confidence_level=confidence_level, band=options.band)
        return display.plot(ax=ax, **plot_params)
