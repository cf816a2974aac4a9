"""Constructors of `EstimationDisplay`: probabilities, a classifier."""

from numbers import Real

from sklearn.utils import check_random_state

from skcalib._validation import check_count
from skcalib.displays._estimation_curves import check_errors, check_sizes, estimation_curves
from skcalib.displays._held_out import held_out
from skcalib.problem import check_problem


class FromSubsamples:
    """Constructors that evaluate the errors on subsamples and draw them."""

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        *,
        errors=("ece", "proper"),
        notion=None,
        sample_sizes=None,
        n_repeats=50,
        band_level=0.9,
        truth=None,
        random_state=0,
        n_jobs=None,
        sample_weight=None,
        labels=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Errors of random subsamples of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class.
        errors : str, callable, list or dict of them by name, default=("ece", "proper")
            What is drawn: names of the table in `EstimationDisplay`, or any error of this library
            or function ``error(y_true, y_proba, *, labels)`` (with `sample_weight` if weights are
            given); ``functools.partial`` fixes its options. The keys of a dict are the names in
            the legend.
        notion : {"top_label", "classwise", "canonical"}, Notion or None, default=None
            Notion of the errors that are named by strings; None leaves each its own default.
        sample_sizes : list of int, default=None
            Sizes of the subsamples, at most the number of samples; by default nine between about
            100 and all, evenly spaced on a log scale.
        n_repeats : int, default=50
            Subsamples of each size, drawn without replacement and the same for all errors. All
            samples together are evaluated once.
        band_level : float, default=0.9
            The band holds the central subsamples of this share.
        truth : float or dict of str to float, default=None
            The true error, if it is known: of all errors, or by their names.
        random_state : int, RandomState instance or None, default=0
            Draws the subsamples.
        n_jobs : int, default=None
            Subsamples at a time; the result does not depend on it.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which stay with their samples.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`; needed where `y_true` may lack a class.
        pos_label : label, default=None
            The positive class of a binary problem; by default the last.
        name : str, default=None
            Name of the forecasts, in front of the names of the errors; none by default.
        ax : Axes, default=None
            Where to draw.
        **plot_params : dict
            Further arguments of `plot`.

        Returns
        -------
        EstimationDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For invalid input, unknown errors, two errors of the same name, sizes that the data do
            not have, and errors that give NaN or refuse a subsample (too small, say).

        Examples
        --------
        >>> from skcalib import EstimationDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 3, random_state=0)
        >>> display = EstimationDisplay.from_predictions(
        ...     data.y, data.posterior, errors=["ece", "debiased"], sample_sizes=[100, 2000])
        >>> print([curve.name for curve in display.curves])
        ['ECE', 'Debiased l2 error']
        """
        errors = check_errors(errors, notion)
        n_repeats = check_count(n_repeats, "n_repeats")
        if not isinstance(band_level, Real) or not 0 < band_level < 1:
            raise ValueError(f"band_level must lie strictly between 0 and 1, got {band_level!r}.")
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        curves = estimation_curves(
            problem,
            errors,
            check_sizes(sample_sizes, len(problem.forecast)),
            weighted=sample_weight is not None,
            n_repeats=n_repeats,
            band_level=band_level,
            rng=check_random_state(random_state),
            n_jobs=n_jobs,
        )
        display = cls(curves, truth=truth, name=name, band_level=band_level)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        cv=None,
        response_method="auto",
        errors=("ece", "proper"),
        notion=None,
        sample_sizes=None,
        n_repeats=50,
        band_level=0.9,
        truth=None,
        random_state=0,
        n_jobs=None,
        sample_weight=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Errors of a classifier on random subsamples of held-out data.

        The classifier stays as it is: what changes is how many samples its error is estimated from.

        Parameters
        ----------
        estimator : classifier
            Fitted, unless `cv` is given.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifier is fitted and (X, y) is held out. Else it is cloned, and its
            out-of-fold probabilities are taken.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        errors, notion, sample_sizes, n_repeats, band_level, truth, random_state, n_jobs
            As in `from_predictions`.
        sample_weight, pos_label, ax, **plot_params
            As in `from_predictions`; with `cv` weights are also passed to the classifier.
        name : str, default=None
            Name of the classifier; its class by default.

        Returns
        -------
        EstimationDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`.
        NotFittedError
            For a classifier that is not fitted, without `cv`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import EstimationDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> display = EstimationDisplay.from_estimator(GaussianNB(), X, y, cv=5, errors="ece")
        >>> print(display.line_.get_label(), display.curves[0].size[-1])
        GaussianNB: ECE 569
        """
        labels, proba, _, weight, classes, _ = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            owner=cls.__name__,
        )
        return cls.from_predictions(
            labels,
            proba,
            errors=errors,
            notion=notion,
            sample_sizes=sample_sizes,
            n_repeats=n_repeats,
            band_level=band_level,
            truth=truth,
            random_state=random_state,
            n_jobs=n_jobs,
            sample_weight=weight,
            labels=classes,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **plot_params,
        )
