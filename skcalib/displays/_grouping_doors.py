"""Constructors of `GroupingDisplay` that form regions: of probabilities, and of a classifier."""

from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from skcalib._validation import check_weight
from skcalib.displays._curves import binary_problems, check_binary_notion
from skcalib.displays._held_out import held_out
from skcalib.displays._regions import grouping_diagram, level_set_ratio
from skcalib.displays._units import unit
from skcalib.estimators._base import ClassifierInspector
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping._candidates import encode_features, plain_rule
from skcalib.problem import check_problem


class FromRegions:
    """Constructors that learn the regions and draw them."""

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_proba,
        X=None,
        *,
        regions=None,
        partitioner="stump",
        n_bins=10,
        strategy="quantile",
        region_ratio=12,
        notion="auto",
        loss="brier",
        smoother=None,
        confidence_level=0.95,
        random_state=0,
        sample_weight=None,
        labels=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Grouping diagram of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class.
        X : array-like of shape (n_samples, n_features), default=None
            Features, or any representation, also of features that the classifier does not use.
            Columns of categories in a data frame are one-hot encoded. May be None where `regions`
            are given.
        regions : array-like of shape (n_samples,), default=None
            Regions that are known beforehand, such as a clinic or an age group; not found with
            these labels. All samples are then drawn.
        partitioner : {"stump", "kmeans"}, estimator or None, default="stump"
            What cuts a level set into regions: one balanced split, two regions; or as in
            `GroupingLossEstimator`, where None is a tree of many regions.
        n_bins : int, default=10
            Level sets at most; fewer where their regions would be smaller than `region_ratio`.
        strategy : {"quantile", "uniform"}, default="quantile"
            Level sets of equal mass or equal width.
        region_ratio : int, default=12
            Samples that a region should hold.
        notion : {"auto", "top_label", "classwise"} or Notion, default="auto"
            The probability of the positive class of a binary problem, and the confidence of the
            predicted class otherwise; the confidence; or a panel for each of at most 25 classes.
        loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
            The proper score of the numbers in the title.
        smoother : None, {"kernel", "isotonic", "binning"}, Smoother or classifier, default=None
            The continuous calibration curve behind the grouping loss, as in
            `GroupingLossEstimator`.
        confidence_level : float, default=0.95
            Level of the intervals.
        random_state : int, RandomState instance or None, default=0
            Seed of the halves and of the partitioner.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            The class of each column of `y_proba`; needed where `y_true` may lack a class.
        pos_label : label, default=None
            The positive class of a binary problem; by default the last.
        name : str, default=None
            Name in the title.
        ax : Axes or array of Axes, default=None
            Where to draw.
        **plot_params : dict
            Further arguments of `plot`.

        Returns
        -------
        GroupingDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For invalid input, neither `X` nor `regions`, a notion with more than two columns, and
            more than 25 panels.

        Examples
        --------
        >>> from skcalib import GroupingDisplay
        >>> from skcalib.datasets import make_grouping_problem
        >>> data = make_grouping_problem(2000, random_state=0)
        >>> clinic = data.X[:, 0] > data.X[:, 1]
        >>> display = GroupingDisplay.from_predictions(data.y, data.y_proba, regions=clinic)
        >>> display.diagrams[0].regions[0].rule
        'region False'
        """
        if X is None and regions is None:
            raise ValueError(
                "A grouping diagram compares samples with equal scores: pass their features X, or "
                "regions= that are known beforehand."
            )
        notion = check_binary_notion(notion)
        problem = check_problem(y_true, y_proba, labels=labels, pos_label=pos_label)
        weight = check_weight(sample_weight, len(problem.target))
        rng = check_random_state(random_state)
        X, encoded = encode_features(X)
        estimator = GroupingLossEstimator(
            loss=loss,
            partitioner=partitioner,
            n_bins=n_bins,
            strategy=strategy,
            region_ratio=level_set_ratio(region_ratio, partitioner, regions),
            smoother=smoother,
            n_permutations=0,
            confidence_level=confidence_level,
            labels=[0, 1],
            random_state=rng,
        )
        diagrams = []
        for event, one in binary_problems(problem, pos_label, notion):
            estimator.fit(
                np.zeros((len(one.target), 1)) if X is None else X,
                one.target[:, 1].astype(int),
                None if sample_weight is None else weight,
                # Rounding may leave a confidence above 1, and rows that miss a sum of 1.
                y_proba=np.minimum(one.forecast[:, 1], 1),
                regions=regions,
            )
            estimator.regions_ = [
                replace(region, rule=plain_rule(region.rule, encoded))
                for region in estimator.regions_
            ]
            diagrams.append(
                grouping_diagram(estimator, event=event, scores=one.forecast[:, 1], weight=weight)
            )
        display = cls(diagrams, name=name, confidence_level=confidence_level, unit=unit(loss))
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
        regions=None,
        partitioner="stump",
        n_bins=10,
        strategy="quantile",
        region_ratio=12,
        notion="auto",
        loss="brier",
        smoother=None,
        confidence_level=0.95,
        random_state=0,
        sample_weight=None,
        pos_label=None,
        name=None,
        ax=None,
        **plot_params,
    ):
        """Grouping diagram of a classifier on held-out data.

        Parameters
        ----------
        estimator : classifier
            Fitted, unless `cv` is given.
        X : array-like of shape (n_samples, n_features)
            Features, dense numbers unless `regions` are given. For another representation, or
            features that the classifier does not take, see `from_predictions`.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifier is fitted and (X, y) is held out. Else it is cloned, and its
            out-of-fold probabilities are drawn.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        regions, partitioner, n_bins, strategy, region_ratio, notion, loss, smoother
            As in `from_predictions`.
        confidence_level, random_state, sample_weight, pos_label, ax, **plot_params
            As in `from_predictions`; with `cv` weights are also passed to the classifier.
        name : str, default=None
            Name in the title; the class of the estimator by default.

        Returns
        -------
        GroupingDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`, for classifiers that are not fitted, and for a fitted
            `GroupingLossEstimator`, which has a door of its own.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import GroupingDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> display = GroupingDisplay.from_estimator(GaussianNB(), X, y, cv=5)
        >>> print(display.ax_.get_xlabel(), "|", display.name)
        Predicted probability of class 1 | GaussianNB
        """
        if isinstance(estimator, ClassifierInspector):
            raise ValueError(
                f"{type(estimator).__name__} is no classifier: pass the classifier itself, or draw "
                "a fitted GroupingLossEstimator by GroupingDisplay.from_grouping_estimator."
            )
        n_samples = len(y)
        y, proba, features, weight, classes, rows = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            owner=f"{cls.__name__}.from_estimator",
        )
        if regions is not None:
            regions = np.asarray(regions)
            if regions.shape == (n_samples,):
                regions = regions[rows]
        return cls.from_predictions(
            y,
            proba,
            None if regions is not None else features,
            regions=regions,
            partitioner=partitioner,
            n_bins=n_bins,
            strategy=strategy,
            region_ratio=region_ratio,
            notion=notion,
            loss=loss,
            smoother=smoother,
            confidence_level=confidence_level,
            random_state=random_state,
            sample_weight=weight,
            labels=classes,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **plot_params,
        )
