"""One table of all public estimators: what each is fitted to, and how scikit-learn's checks see it.

Bare recalibrators take probabilities, and `VarianceScaling` pairs of a mean and a variance; the
checks of scikit-learn draw any real features. Adapters map these to what is asked for by a fixed
function. Everything else is the class as it is.
"""

import inspect

import numpy as np
import sklearn
from public_functions import public_names
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

import skcalib as s
from skcalib.recalibration import Recalibrator
from skcalib.smoothers import CrossFitted, OutOfFoldSmoother, PartitionSmoother, Smoother

#: Bases of smoothers, which do nothing by themselves.
ABSTRACT = (OutOfFoldSmoother, PartitionSmoother, Smoother)
OLD_SKLEARN = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7)


def public_estimators():
    """Classes with `fit` among the public names, without the abstract base of smoothers."""
    classes = [kind for kind in public_names().values() if inspect.isclass(kind)]
    return [c for c in classes if hasattr(c, "fit") and c not in ABSTRACT]


RECALIBRATORS = [c for c in public_estimators() if issubclass(c, Recalibrator)]
SMOOTHERS = [c for c in public_estimators() if issubclass(c, Smoother)]


class Simplex:
    """Any features, by a fixed projection and the softmax, to as many columns as there are classes.

    Labels of a single class get a second column, of which they say nothing.
    """

    def fit(self, X, y, sample_weight=None):
        if y is None:
            return super().fit(X, y, sample_weight)
        X = self._features(X, reset=True)
        classes = np.unique(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
        if len(classes) < 2:
            raise ValueError("Only one class: the columns of X would have no meaning.")
        self._project(X, len(classes))
        return self._learned(X, super().fit, y, sample_weight)

    def _project(self, X, n_classes):
        rng = np.random.default_rng(0)
        self.projection_ = rng.normal(size=(X.shape[1], n_classes)) / np.sqrt(X.shape[1])

    def _learned(self, X, learn, *labels_and_weights):
        """The recalibrator that has learned the probabilities, with the names of the features."""
        names = vars(self).pop("feature_names_in_", None)
        learn(self._proba(X), *labels_and_weights)
        self.n_features_in_ = X.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        return self._apply_map(self._read(self._proba(self._features(X, reset=False))))

    def _features(self, X, reset):
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _proba(self, X):
        z = X @ self.projection_
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a random projection predicts nothing
        tags.input_tags.positive_only = False
        return tags


class SimplexInParts(Simplex):
    """The same with `partial_fit`, whose first call knows the features and the classes."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        first = not hasattr(self, "classes_")
        X = self._features(X, reset=first)
        if first:
            self._project(X, len(classes))
        return self._learned(X, super().partial_fit, y, classes, sample_weight)


def adapt(recalibrator):
    """A class of this module, so that it can be pickled: the recalibrator behind `Simplex`."""
    name = f"AnyFeatures{recalibrator.__name__}"
    simplex = SimplexInParts if hasattr(recalibrator, "partial_fit") else Simplex
    return type(name, (simplex, recalibrator), {"__module__": __name__})


ADAPTED = {recalibrator: adapt(recalibrator) for recalibrator in RECALIBRATORS}
globals().update({adapted.__name__: adapted for adapted in ADAPTED.values()})


class AnyFeaturesVarianceScaling(TransformerMixin, BaseEstimator):
    """A mean and a positive variance, made of any features."""

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, y_numeric=True)
        self.inner_ = s.regression.VarianceScaling().fit(self._moments(X), y, sample_weight)
        self.n_iter_ = max(self.inner_.n_iter_, 1)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return self.inner_.transform(self._moments(validate_data(self, X, reset=False)))

    def get_feature_names_out(self, input_features=None):
        return self.inner_.get_feature_names_out()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @staticmethod
    def _moments(X):
        X = X.astype(np.float64)
        return np.column_stack([X[:, 0], 1 + np.square(X).sum(axis=1)])


#: Recalibrators that cross-validate their strength of shrinkage, which takes most of the time of a
#: suite. One strength is given in all suites, and the slow ones choose it too.
SHRUNKEN = (s.VectorScaling, s.recalibration.MatrixScaling, s.DirichletCalibration)


def quick(recalibrator):
    """A recalibrator without cross-validation inside."""
    if recalibrator is s.StackedRecalibrator:  # with all candidates in CHECKED_SLOWLY
        candidates = [s.TemperatureScaling(), s.IsotonicRecalibrator(strict=True)]
        return recalibrator(candidates=candidates)
    return recalibrator(shrinkage=1.0) if recalibrator in SHRUNKEN else recalibrator()


#: Forms of the estimators that scikit-learn's checks can fit to any features.
CHECKED = {
    **{r: [ADAPTED[r](**quick(r).get_params())] for r in RECALIBRATORS},
    s.regression.VarianceScaling: [AnyFeaturesVarianceScaling()],
    s.CalibrationErrorEstimator: [s.CalibrationErrorEstimator(LogisticRegression(), cv=3)],
    s.GroupingLossEstimator: [
        s.GroupingLossEstimator(LogisticRegression(), cv=3, method="partition", n_permutations=5)
    ],
    s.CrossFitProba: [s.CrossFitProba()],
    s.RecalibratedClassifierCV: [
        s.RecalibratedClassifierCV(None, "temperature", ensemble=True, cv=3)
    ],
    s.regression.RecalibratedRegressorCV: [s.regression.RecalibratedRegressorCV()],
}
#: The same with the strength of shrinkage chosen, and with other options, for the slow suite.
CHECKED_SLOWLY = [
    *(ADAPTED[recalibrator]() for recalibrator in (*SHRUNKEN, s.StackedRecalibrator)),
    s.CalibrationErrorEstimator(LogisticRegression(), cv=3, notion="classwise", method="cross"),
    s.GroupingLossEstimator(LogisticRegression(), cv=3, method="risk", partitioner=Ridge()),
    s.GroupingLossEstimator(LogisticRegression(), cv=3, n_permutations=20),
    s.RecalibratedClassifierCV(),
]
#: What is fitted to other things than features and labels, and what holds it instead. The laws of
#: `skcalib.testing.check_smoother` are run over the smoothers by test_smoothers.py.
NOT_CHECKED = {
    **dict.fromkeys(SMOOTHERS, "an operator on forecasts and targets: it obeys check_smoother"),
    s.ForecastSketch: "a metric fed by chunks, fit(y_true, y_proba): test_sketch.py",
    s.MultilabelRecalibrator: "probabilities of indicator matrices: test_multilabel.py",
    s.SequentialCalibrationTest: "a test fed by batches: monitoring/test_sequential.py",
    s.CalibrationMonitor: "alarms, fed by batches: monitoring/test_monitor.py",
}

# What counts samples, or cuts at ranks, tells a weight of 2 from a sample that stands there twice
# (DESIGN: weights average). Tested on their own terms in test_recalibration.py.
COUNTS = "shrinkage, a prior or folds count samples, and weights average: 2 is not a repetition"
SEPARABLE = "its labels of a class are separable, and the weak prior that helps counts samples"
RANKS = "bins, knots or a bandwidth come from the samples, and weights do not move them"
DIFFERS = "fit_transform is cross-fitted and differs from transform by design"
SPARSE = "scikit-learn 1.6 runs it although the tag says that sparse X is refused"
RIDGE = "the BayesianRidge of scikit-learn 1.6 fails this check itself"
EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
COUNTING = (
    *(s.recalibration.BiasCorrectedTemperatureScaling, s.SplineScaling, s.VennAbersRecalibrator),
    *(
        s.StackedRecalibrator,
        s.VectorScaling,
        s.recalibration.MatrixScaling,
        s.recalibration.ModelAverageScaling,
    ),
    *(s.DirichletCalibration, s.recalibration.DiagonalOrderPreserving, s.GroupRecalibrator),
)
EXEMPT = {
    **{kind: {EQUIVALENCE: COUNTS} for kind in COUNTING},
    **{
        kind: {EQUIVALENCE: SEPARABLE}
        for kind in (s.PlattScaling, s.recalibration.QuadraticScaling)
    },
    s.recalibration.KernelRecalibrator: {EQUIVALENCE: RANKS},
    s.RecalibratedClassifierCV: {
        EQUIVALENCE: COUNTS,
        "check_sample_weight_equivalence_on_sparse_data": COUNTS,
    },
    s.CrossFitProba: {
        "check_transformer_general": DIFFERS,
        "check_transformer_data_not_an_array": DIFFERS,
    },
}
if OLD_SKLEARN:
    EXEMPT[s.GroupingLossEstimator] = {"check_sample_weight_equivalence_on_sparse_data": SPARSE}
    EXEMPT[s.regression.RecalibratedRegressorCV] = {EQUIVALENCE: RIDGE}


def exemptions(estimator):
    """Names of checks that cannot hold for an estimator, each with the reason."""
    if getattr(estimator, "recalibrator", None) == "temperature":
        return {}
    public = [c for c in type(estimator).__mro__ if c in EXEMPT]
    return EXEMPT[public[0]] if public else {}


def draw(n_samples=120, n_classes=3, *, seed=0):
    """Features, labels and forecasts, with every class, a tie and an exact 0 and 1."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_classes), n_samples)
    y = (P.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    y[:n_classes] = np.arange(n_classes)
    P[:2] = np.eye(n_classes)[:2]
    P[-4:-2] = P[-2:]
    X = np.column_stack([np.log(P + 0.1) + rng.normal(size=P.shape), rng.normal(size=n_samples)])
    assert np.ptp(X, axis=0).min() > 0.5 and len(np.unique(y)) == n_classes
    return X, y, P


def variants():
    """Recalibrators with the options that change what is stored."""
    return [
        s.PlattScaling(smooth_targets=True),
        s.TemperatureScaling(input="logits"),
        s.VectorScaling(loss="brier"),
        s.IsotonicRecalibrator(centered=True),
        s.IsotonicRecalibrator(strict=True),
        s.HistogramBinning(n_bins=4, strategy="uniform"),
        s.recalibration.KernelRecalibrator(bandwidth=0.05),
    ]


def instances():
    """Pairs (estimator, kind of X): "proba", "features" or "moments"."""
    candidates = [s.TemperatureScaling(), s.IsotonicRecalibrator()]
    risk = {"method": "risk", "partitioner": Ridge()}
    return [
        *((quick(recalibrator), "proba") for recalibrator in RECALIBRATORS),
        *((recalibrator, "proba") for recalibrator in variants()),
        (s.regression.VarianceScaling(), "moments"),
        (s.CalibrationErrorEstimator(), "proba"),
        (s.CalibrationErrorEstimator(GaussianNB(), cv=3), "features"),
        *(
            (s.GroupingLossEstimator(GaussianNB(), cv=3, random_state=0, **options), "features")
            for options in ({"n_permutations": 10}, risk)
        ),
        (s.CrossFitProba(GaussianNB(), cv=3), "features"),
        *(
            (s.RecalibratedClassifierCV(GaussianNB(), name, cv=3, **options), "features")
            for name, options in (
                ("temperature", {}),
                ("select", {"ensemble": True, "candidates": candidates}),
            )
        ),
        (s.regression.RecalibratedRegressorCV(cv=3), "features"),
    ]


def data_for(kind, *, seed=0):
    """X of this kind, and y."""
    X, y, P = draw(seed=seed)
    if kind == "moments":
        return np.column_stack([X[:, 0], 0.5 + X[:, 1] ** 2]), X[:, 2]
    return (P, y) if kind == "proba" else (X, y)


def answers(estimator, X):
    """All that a fitted estimator says, as arrays: its answers for X, and its numbers."""
    said = {
        name: np.asarray(getattr(estimator, name)(X))
        for name in ("predict_proba", "predict", "transform")
        if hasattr(estimator, name)
    }
    for name, value in vars(estimator).items():
        numeric = isinstance(value, (int, float, tuple, np.ndarray)) and name.endswith("_")
        if numeric and np.asarray(value).dtype.kind in "bif":
            said[name] = np.asarray(value)
    return said


def other_instances():
    """One of each of `NOT_CHECKED`."""
    needs = {CrossFitted: {"estimator": LogisticRegression()}, s.ForecastSketch: {"labels": [0, 1]}}
    return [kind(**needs.get(kind, {})) for kind in NOT_CHECKED]
