"""Fitted maps as JSON and as ONNX: both hold the same list of steps.

A recalibrator adds the steps of its `_apply_map` in `_write_map`, and its parts theirs in `_write`,
to `_Steps`. `_STEPS` defines each operation once, by operators of ONNX, which `_NUMPY` has too.
"""

from __future__ import annotations

import json
import re
import warnings
from functools import partial, reduce
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaseEnsemble, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.packing import has_form, json_value, refused, require
from skcalib._util.types import MatrixLike
from skcalib._util.validation import look_up, take_rows
from skcalib.data.clusters import outside_level
from skcalib.data.labels import check_label_list
from skcalib.data.problem import check_label_probabilities
from skcalib.estimators import RecalibratedClassifierCV
from skcalib.links.logits import COMPRESSED_BELOW
from skcalib.recalibration import MultilabelRecalibrator, Recalibrator
from skcalib.recalibration.base import align_columns

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["from_json", "register_converter", "to_json", "to_onnx"]

_VERSION = 1
_OPSETS = {"": 17, "ai.onnx.ml": 3}
_MOST_ROWS = 1000  # at which a graph is compared with its model
_LARGE = 1e-4  # difference of probabilities


def to_json(recalibrator: BaseEstimator) -> str:
    """Write a fitted recalibrator as JSON.

    The object has the keys "skcalib" (the version of the format, 1), "map" (the name of the class),
    "input" ("proba", "logits", or "labels" for the probabilities of several labels), "classes" and
    "steps". A step is an operation "op" on the arrays of the numbers "of", with parameters by name.
    Array 0 is the input (n, n_classes), array k the result of step k, and the last array the
    probabilities. :ref:`deploy_a_map` defines the operations, with readers in NumPy and SQL.

    Parameters
    ----------
    recalibrator : recalibrator or Pipeline of recalibrators
        Fitted, without features: of a `GroupRecalibrator` export ``plain_``.

    Returns
    -------
    str
        JSON, with finite numbers.

    Raises
    ------
    ValueError
        For other objects, and for classes that JSON cannot hold.

    See Also
    --------
    skcalib.export.from_json : Reads it.

    Examples
    --------
    >>> from skcalib.recalibration import LabelNoiseScaling
    >>> from skcalib.export import to_json
    >>> print(to_json(LabelNoiseScaling().fit([0.2, 0.7], [0, 1])).partition(', "steps"')[2])
    : [{"op": "scale", "of": [0], "factor": 1.0, "shift": 0.0}]}
    """
    return json.dumps(_document(recalibrator), allow_nan=False)


def from_json(text: str | bytes) -> Recalibrator | MultilabelRecalibrator:
    """Read a recalibrator that `to_json` wrote.

    The document is validated before anything is computed. It holds numbers, and no code.

    Parameters
    ----------
    text : str or bytes
        The JSON document.

    Returns
    -------
    recalibrator
        Fitted: `predict_proba`, `transform` and `predict` take probabilities or logits as before.

    Raises
    ------
    ValueError
        For other documents and versions, and for damaged documents.

    See Also
    --------
    skcalib.export.to_json : Writes it.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.export import from_json, to_json
    >>> scaling = PlattScaling().fit([0.1, 0.4, 0.6, 0.7], ["no", "yes", "no", "yes"])
    >>> from_json(to_json(scaling)).predict([0.2, 0.9])
    array(['no', 'yes'], dtype='<U3')
    """
    if not isinstance(text, (str, bytes)):
        raise ValueError(f"text must be JSON, a str or bytes, got {type(text).__name__}.")
    with refused("document"):
        document = json.loads(text)
    version = document.get("skcalib") if isinstance(document, dict) else None
    if type(version) is not int or version != _VERSION:
        raise ValueError(
            f"The document must be a map of version {_VERSION}, got {shown(version)}: write it "
            "with to_json, or update skcalib."
        )
    with refused("document"):
        _check(document)
        return (_ExportedLabels if document["input"] == "labels" else _ExportedMap)(document)


def to_onnx(
    model: BaseEstimator,
    X: MatrixLike | None = None,
    *,
    dtype: Literal["float32", "float64"] = "float32",
    n_columns: int | None = None,
) -> ModelProto:
    """Write a fitted recalibrator, or a recalibrated classifier, as an ONNX graph.

    The output "probabilities" has shape (n, n_classes); "classes" in the metadata is a JSON list.
    The map is computed in double precision, and needs operator set 17.

    Parameters
    ----------
    model : recalibrator, RecalibratedClassifierCV or Pipeline
        Fitted: a recalibrator, a Pipeline of recalibrators, a `RecalibratedClassifierCV` of a
        classifier that ``skl2onnx`` converts, or a Pipeline that ends in one. Where the map takes
        decision values, these must be linear, as those of `LinearSVC`, or of `SVC` and `NuSVC`
        without probabilities, `GradientBoostingClassifier` or `AdaBoostClassifier`.
    X : array-like of shape (n_samples, n_features), default=None
        Features of a classifier, whose names and types become inputs. With None there is one input
        "X" (n, n_features). Where ``onnxruntime`` is installed, the graph is compared with
        `predict_proba` at up to 1,000 rows of X, so pass rows like those that it will meet.
    dtype : {"float32", "float64"}, default="float32"
        Type of input and output. Maps with steps, of forecasts with ties, need "float64".
    n_columns : int, default=None
        Columns of the input of a map: one for each class, or 1 for the second of two classes.

    Returns
    -------
    onnx.ModelProto
        The graph; ``.SerializeToString()`` gives the content of a file.

    Raises
    ------
    ImportError
        Without the packages of ``skcalib[onnx]``.
    ValueError
        For other objects and parameters, and for a classifier that ``skl2onnx`` cannot convert,
        such as those of LightGBM and XGBoost before their converters are registered
        (see Notes). If the graph of a classifier cannot be run.
    NotFittedError
        If the model is not fitted.

    Warns
    -----
    UserWarning
        If the graph differs from `predict_proba` by more than 1e-4 at rows of X, with the largest
        difference.

    See Also
    --------
    skcalib.export.to_json : Writes a map as JSON.

    Notes
    -----
    **Trees** jump at their splits. Features that are rounded to single precision may fall on the
    other side of one, most often behind a scaler, and where splits are at values of the data, as in
    XGBoost: take ``dtype="float64"`` and features in double precision.

    Classifiers of LightGBM and XGBoost have converters in the package ``onnxmltools``, which are
    registered in this way, also for those in a Pipeline::

        from lightgbm import LGBMClassifier
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

        options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
        shapes = calculate_linear_classifier_output_shapes
        update_registered_converter(
            LGBMClassifier, "LGBMClassifier", shapes, convert_lightgbm, options=options
        )

    For ``xgboost.XGBClassifier`` the converter is ``convert_xgboost`` of
    ``onnxmltools.convert.xgboost.operator_converters.XGBoost``. Without a converter, write the map
    alone, ``to_onnx(model.recalibrator_)``, and pass it the probabilities of the classifier.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.export import to_onnx
    >>> scaling = TemperatureScaling().fit([0.1, 0.4, 0.6, 0.7], [0, 1, 0, 1])
    >>> to_onnx(scaling, n_columns=1).graph.output[0].name
    'probabilities'
    """
    kind = look_up(dtype, {"float32": 1, "float64": 11}, "dtype")
    graph, onnx = _Graph(), _package("onnx")
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, RecalibratedClassifierCV):
        check_is_fitted(last)
        first = np.zeros((1, model.n_features_in_), dtype) if X is None else X[:1]
        start = [] if last is model else model.steps[:-1]
        proba = graph.recalibrated(start, last, first, name="model" if not start else "model[-1]")
        document = _document(last.recalibrators_[-1])
    else:
        document = _document(model)
        n_classes, values = len(document["classes"]), graph("Cast", "X")
        width = n_classes if n_columns is None else n_columns
        single = n_classes == 2 and document["input"] != "labels"
        if width not in (n_classes, 1 if single else n_classes):
            known = f"{n_classes} or 1" if single else n_classes
            raise ValueError(f"n_columns must be {known}, got {shown(width)}.")
        if width == 1:
            total = float(document["input"] == "proba")
            values = graph("Add", graph("MatMul", values, [[-total, 1.0]]), [total, 0.0])
        graph.inputs = [onnx.helper.make_tensor_value_info("X", kind, [None, width])]
        proba = _run(document, values, graph)
    graph("Cast", proba, to=kind, name="probabilities")
    shape = [None, len(document["classes"])]
    output = onnx.helper.make_tensor_value_info("probabilities", kind, shape)
    made = onnx.helper.make_graph(graph.nodes, "map", graph.inputs, [output], graph.constants)
    opsets = [onnx.helper.make_opsetid(domain, number) for domain, number in _OPSETS.items()]
    written = onnx.helper.make_model(made, opset_imports=opsets, ir_version=8)
    onnx.helper.set_model_props(written, {"classes": json.dumps(document["classes"])})
    if isinstance(last, RecalibratedClassifierCV) and X is not None:
        _compare(written, model, X, graph.alone)
    return written


def register_converter() -> None:
    """Let ``skl2onnx`` convert `RecalibratedClassifierCV`, alone and inside other models.

    After the call ``skl2onnx.to_onnx`` takes models that contain it, such as a `VotingClassifier`
    or a Pipeline, with the options "zipmap" and "nocl" of classifiers. Its input is one matrix: of
    columns of a data frame as inputs, use :func:`to_onnx`.

    Raises
    ------
    ImportError
        Without the packages of ``skcalib[onnx]``.

    See Also
    --------
    skcalib.export.to_onnx : A graph of a recalibrator or of a recalibrated classifier.

    Examples
    --------
    >>> from skcalib.export import register_converter
    >>> register_converter()
    """
    skl2onnx = _package("skl2onnx")
    shapes = import_module("skl2onnx.common.shape_calculator")
    skl2onnx.update_registered_converter(
        RecalibratedClassifierCV,
        "SkcalibRecalibratedClassifierCV",
        shapes.calculate_linear_classifier_output_shapes,
        _convert,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
    )


def _convert(scope, operator, container):
    """Add the graph of a `RecalibratedClassifierCV` to a container of skl2onnx."""
    types, model = import_module("skl2onnx.common.data_types"), operator.raw_operator
    label, chances = operator.outputs
    kind = types.guess_numpy_type(operator.inputs[0].type)
    opsets = {**container.target_opset_all}
    opsets["ai.onnx.ml"] = max(opsets.get("ai.onnx.ml", 0), _OPSETS["ai.onnx.ml"])
    graph = _Graph(scope.get_unique_operator_name("map"), opsets)
    X, start = np.zeros((1, model.n_features_in_), kind), operator.inputs[0].full_name
    proba = graph.recalibrated([], model, X, start)
    classes = model.classes_.astype(object if model.classes_.dtype.kind in "OU" else np.int64)
    if scope.get_options(model, {"nocl": False})["nocl"]:
        classes = np.arange(len(classes))
    best = graph("Squeeze", graph("ArgMax", proba), [1])
    graph("Gather", classes, best, name=label.full_name)
    graph("Cast", proba, to=types.guess_proto_type(chances.type), name=chances.full_name)
    container.nodes += graph.nodes
    container.initializers += graph.constants
    container.node_domain_version_pair_sets |= set(opsets.items())


def _package(name):
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"ONNX graphs need {name}: pip install skcalib[onnx].") from error


def _without_converter(error, model, alone):
    """What to do where skl2onnx cannot convert a step of a Pipeline."""
    named = re.search(r"<class '([\w.]+)'>", str(error))
    path = named[1] if named else f"{type(model[-1]).__module__}.{type(model[-1]).__name__}"
    package, kind = path.partition(".")[0], path.rpartition(".")[2]
    converter = "register a converter of it by skl2onnx.update_registered_converter"
    if package in ("lightgbm", "xgboost"):
        converter = (
            "pip install onnxmltools and register its converter by "
            "skl2onnx.update_registered_converter"
        )
    return (
        f"skl2onnx cannot convert {kind}: {converter}, see help(skcalib.export.to_onnx); or export "
        f"the map alone, to_onnx({alone}), and pass it the probabilities of the classifier."
    )


class _Graph:
    """Nodes of a graph; a call makes one, and returns the name of its result.

    ``alone`` is the map of the classifier alone, in a message.
    """

    def __init__(self, prefix="map", opsets=_OPSETS):
        self.nodes, self.constants, self.inputs = [], [], []
        self.prefix, self.opsets, self.alone = prefix, opsets, ""

    def __call__(self, op, *inputs, name=None, **attributes):
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = name or f"{self.prefix}_{len(self.nodes)}"
        attributes = _ATTRIBUTES.get(op, {}) | attributes
        self.nodes.append(import_module("onnx.helper").make_node(op, names, [name], **attributes))
        return name

    def _constant(self, value):
        name, array = f"{self.prefix}_constant_{len(self.constants)}", np.asarray(value)
        self.constants.append(import_module("onnx.numpy_helper").from_array(array, name))
        return name

    def recalibrated(self, start, model, X, source=None, name="model"):
        """Probabilities of a `RecalibratedClassifierCV` behind other steps.

        The first row of X has the types of the inputs, or `source` is the name of the only one.
        `name` stands for the model in a message.
        """
        check_is_fitted(model)
        several = len(model.estimators_) > 1
        self.alone = (
            f"{name}.recalibrators_[k] of each fold k" if several else f"{name}.recalibrator_"
        )
        answers, parts = [], (model.estimators_, model.responses_, model.recalibrators_)
        for classifier, response, recalibrator in zip(*parts, strict=True):
            proba = self.classifier(start, classifier, response, X, model.classes_, source)
            answers.append(_run(_document(recalibrator), proba, self))
        return self("Mul", reduce(partial(self, "Add"), answers), 1 / len(answers))

    def classifier(self, start, classifier, response, X, classes, source):
        """Probabilities of a classifier behind other steps, as skl2onnx converts it."""
        if isinstance(classifier, FrozenEstimator):
            classifier = classifier.estimator
        known = classifier.classes_
        if isinstance(classifier, Pipeline):
            start, classifier = [*start, *classifier.steps[:-1]], classifier.steps[-1][1]
        if _is_single(classifier):
            cast = import_module("skl2onnx.sklapi").CastTransformer(dtype=np.float32)
            start = [*start, ("single", cast)]
        if response.method == "decision_function" and response.scale.tails is not None:
            raise ValueError(
                f"The decision values of {type(classifier).__name__} have heavy tails, and to_onnx "
                "takes those with a unit alone: scale the features (StandardScaler, "
                "QuantileTransformer), or convert the classifier alone, and its map by "
                f"to_onnx({self.alone})."
            )
        linear = hasattr(classifier, "coef_") and hasattr(classifier, "intercept_")
        if isinstance(classifier, (NuSVC, SVC)):  # their coefficients are of pairs of classes
            linear = False
        if response.method == "decision_function" and linear:
            logits = self.converted(start, _linear_logits(classifier, response.scale), X, source)[0]
            proba = self("Softmax", self("Cast", logits))
        elif response.method == "decision_function":
            _check_raw(classifier, self.alone)
            values = self("Cast", self.converted(start, classifier, X, source, raw=True)[1])
            centre = np.eye(len(known)) - 1 / len(known)
            if len(known) == 2:
                centre = np.array([[0.0, 0.0], [-0.5, 0.5]])
            logits = self("Div", self("MatMul", values, centre), response.scale.unit)
            shift = np.broadcast_to(response.scale.shift, len(known))
            proba = self("Softmax", self("Sub", logits, shift))
        else:
            answer = self.converted(start, classifier, X, source)[1]
            proba = self("Max", self("Cast", answer), 0.0)  # less than 0 by rounding
        if isinstance(classifier, (ExtraTreesClassifier, RandomForestClassifier)):
            # In single precision: shares of the trees, such as 0 and 1, become exact.
            number = float(len(classifier.estimators_))
            share = self("Div", self("Round", self("Mul", proba, number)), number)
            near = self("Greater", 1e-6, self("Abs", self("Sub", proba, share)))
            proba = self("Where", near, share, proba)
        return self("MatMul", proba, align_columns(np.eye(len(known)), known, classes))

    def converted(self, start, last, X, source, raw=False):
        """Names of the outputs of an estimator behind other steps, with its `raw` scores or not."""
        model = Pipeline([*start, ("last", last)])
        options = {id(model): {"zipmap": False}} if raw or hasattr(last, "predict_proba") else None
        if raw:
            options[id(last)] = {"raw_scores": True}
        convert, unknown = _package("skl2onnx").to_onnx, import_module("skl2onnx.common.exceptions")
        try:
            with warnings.catch_warnings():  # of attributes that skl2onnx reads
                warnings.simplefilter("ignore", FutureWarning)
                part = convert(model, X, options=options, target_opset=self.opsets)
        except (unknown.MissingShapeCalculator, unknown.MissingConverter) as error:
            raise ValueError(_without_converter(error, model, self.alone)) from error
        except Exception as error:  # whatever a converter fails with
            raise ValueError(
                f"skl2onnx fails to convert {type(last).__name__} ({type(error).__name__}): export "
                f"the map alone, to_onnx({self.alone}), and pass it the probabilities of the "
                "classifier."
            ) from error
        prefix = f"{self.prefix}_part_{len(self.nodes)}_"
        for value in part.graph.input:
            self("Identity", source or value.name, name=prefix + value.name)
        made = import_module("onnx.compose").add_prefix(part, prefix).graph
        self.nodes, self.inputs = [*self.nodes, *made.node], part.graph.input
        self.constants += made.initializer
        return [value.name for value in made.output]


def _compare(graph, model, X, alone):
    """Warn where a graph differs from `predict_proba` at rows of X; raise if it cannot be run."""
    if find_spec("onnxruntime") is None:
        return
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), _MOST_ROWS)).astype(int))
    X, helper = take_rows(X, rows), import_module("onnx.helper")
    values = {}
    for value in graph.graph.input:
        column = X[value.name] if hasattr(X, "columns") else X
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        values[value.name] = np.asarray(column).reshape(len(rows), -1).astype(kind)
    remedy = f"export the map alone, to_onnx({alone}), and pass it the probabilities"
    try:
        session = import_module("onnxruntime").InferenceSession(graph.SerializeToString())
        proba = session.run(["probabilities"], values)[0]
    except Exception as error:  # onnxruntime has no common class of its errors
        raise ValueError(
            f"The graph that skl2onnx makes of the classifier cannot be run: {remedy}."
        ) from error
    difference = np.abs(proba - model.predict_proba(X)).max(axis=1)
    if difference.max() > _LARGE:
        if any(column.dtype == np.float32 for column in values.values()):
            remedy = (
                "rounding the features to single precision moves them across splits or steps; set "
                "dtype='float64' and pass X in double precision"
            )
        warnings.warn(
            f"The graph differs from predict_proba by up to {difference.max():.2g}, and by more "
            f"than {_LARGE:g} in {np.sum(difference > _LARGE):,} of {len(rows):,} rows: {remedy}.",
            UserWarning,
            stacklevel=outside_level(),
        )


def _is_single(classifier):
    """Whether a classifier rounds features to single precision, which its converter leaves out."""
    parts = np.ravel(getattr(classifier, "estimators_", [classifier]))
    averages = isinstance(classifier, (BaseDecisionTree, BaseEnsemble))
    trees = averages and all(isinstance(part, BaseDecisionTree) for part in parts)
    return trees or type(classifier).__module__.startswith("xgboost.")


def _check_raw(classifier, alone):
    """Raise for classifiers whose converter has no decision values."""
    names = ("SVC", "NuSVC", "GradientBoostingClassifier", "AdaBoostClassifier")
    if type(classifier).__name__ not in names or getattr(classifier, "probability", False) is True:
        advice = ""
        if hasattr(classifier, "predict_proba"):
            advice = "fit with response_method='predict_proba', or "
        raise ValueError(
            f"to_onnx takes decision values d of linear classifiers and of {', '.join(names)} "
            f"without probabilities, unlike those of {type(classifier).__name__}: {advice}convert "
            f"the classifier alone, and its map by to_onnx({alone}), whose input is "
            "softmax(responses_[0].scale.logits(d)), where two classes have the values -d/2, d/2."
        )


def _linear_logits(classifier, scale):
    """The logits of a classifier whose decision values are linear, as a regressor."""
    coef = np.atleast_2d(classifier.coef_).astype(np.float64) / scale.unit
    intercept = np.broadcast_to(classifier.intercept_, len(coef)) / scale.unit
    centre = np.eye(len(coef)) - 1 / len(coef) if len(coef) > 1 else np.array([[-0.5], [0.5]])
    linear = LinearRegression()
    linear.coef_, linear.intercept_ = centre @ coef, centre @ intercept - scale.shift
    linear.n_features_in_ = coef.shape[1]
    return linear


def _document(recalibrator):
    """The JSON document of a fitted recalibrator."""
    if isinstance(recalibrator, (_ExportedMap, _ExportedLabels)):
        return recalibrator.document
    add, first = _Steps(), recalibrator
    several = isinstance(recalibrator, MultilabelRecalibrator)
    if several:
        check_is_fitted(recalibrator)
    last = recalibrator._write_map(add, 0) if several else add.recalibrator(recalibrator, 0)
    while isinstance(first, Pipeline):
        first = next(step for _, step in first.steps if step not in (None, "passthrough"))
    classes = recalibrator.labels_ if several else recalibrator.classes_
    return {
        **{"skcalib": _VERSION, "map": type(recalibrator).__name__},
        "input": "labels" if several else first.input,
        "classes": [json_value(label, "An exported map") for label in classes],
        "steps": add[:last] or [{"op": "sum", "of": [0]}],
    }


class _Steps(list):
    """Steps of a map; a call adds one, if it is new, and returns its number. 0 is the input."""

    def __call__(self, op, *of, **parameters):
        if op == "scale":
            parameters = {"factor": 1.0, "shift": 0.0} | parameters
        step = {"op": op, "of": [*of]}
        step |= {name: np.asarray(value, float).tolist() for name, value in parameters.items()}
        if step not in self:
            self.append(step)
        return self.index(step) + 1

    def recalibrator(self, recalibrator, x, classes=None):
        """Add a recalibrator, or a Pipeline of them, with a column for each of `classes`."""
        if isinstance(recalibrator, Pipeline):
            for _, step in recalibrator.steps:
                x = x if step in (None, "passthrough") else self.recalibrator(step, x)
        else:
            # A class that changes the map must describe it, too.
            names, bases = {"_read", "_apply_map", "_write_map"}, type(recalibrator).__mro__
            owner = next((base for base in bases if names & {*vars(base)}), Recalibrator)
            if "_write_map" not in vars(owner):
                self.refuse(recalibrator)
            check_is_fitted(recalibrator)
            x = recalibrator._write_map(self, self.read(recalibrator, x))
        known = recalibrator.classes_
        if classes is None or np.array_equal(known, classes):
            return x
        return self("matrix", x, coef=align_columns(np.eye(len(known)), known, classes))

    def read(self, recalibrator, x):
        """Add what the map takes, from probabilities or logits."""
        if recalibrator.input == "proba":
            return self.log(x, recalibrator.detection_limit_) if recalibrator._of_logits else x
        if recalibrator.logit_tails_ is not None:
            x = recalibrator.logit_tails_._write(self, x)
        if recalibrator.logit_unit_ != 1:
            x = self("scale", x, factor=1 / recalibrator.logit_unit_)
        return x if recalibrator._of_logits else self("softmax", x)

    def part(self, part, *arguments):
        """Add a part of a map, such as a link."""
        return part._write(self, *arguments) if hasattr(part, "_write") else self.refuse(part)

    def refuse(self, part):
        raise ValueError(
            f"{type(part).__name__} cannot be exported: pass a fitted recalibrator of skcalib, one "
            "with a method _write_map, or a Pipeline of them; to_onnx also takes a "
            "RecalibratedClassifierCV."
        )

    def log(self, x, limit):
        """Add `log_forecast`."""
        return self("log", x, least=np.log(limit), far=COMPRESSED_BELOW)

    def logit(self, x):
        return self("matrix", x, coef=[[-1], [1]])

    def second(self, x):
        return self("matrix", x, coef=[[0], [1]])

    def pair(self, p):
        return self("scale", self("matrix", p, coef=[[-1, 1]]), shift=[1, 0])

    def lines(self, x, knots, levels):
        """Add linear interpolation, constant beyond the knots."""
        with np.errstate(all="ignore"):
            slopes = np.append(np.diff(levels) / np.diff(knots), 0.0)
        # Between equal knots there is no value that a slope would change.
        slopes = np.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)
        coef = np.vstack([[levels[0], 0], np.column_stack([levels, slopes])])
        return self("curve", x, breaks=knots, coef=coef)

    def stairs(self, x, breaks, levels):
        """Add levels (m + 1,) of the second of two columns, which change at breaks (m,)."""
        changes = np.flatnonzero(np.diff(levels))
        coef = levels[np.append(0, changes + 1), None]
        return self("curve", self.second(x), breaks=breaks[changes], coef=coef)


# --- Operations -----------------------------------------------------------------------------------


def _log(op, a, least, far):
    empty = op("GreaterOrEqual", 0.0, a)  # or below it by rounding
    z = op("Max", op("Where", empty, least, op("Log", op("Where", empty, 1.0, a))), least)
    beyond = op("Max", op("Sub", far, z), 0.0)
    return op("Sub", op("Max", z, far), op("Log", op("Add", beyond, 1.0)))


def _curve(op, a, breaks, coef):
    padded = np.full(1 << len(breaks).bit_length(), np.inf)
    padded[: len(breaks)] = breaks
    piece, step = 0, len(padded) // 2
    while step:  # bisection: the number of breaks up to each value
        reached = op("GreaterOrEqual", a, op("Gather", padded, op("Add", piece, step - 1)))
        piece, step = op("Add", piece, op("Where", reached, step, 0)), step // 2
    x = op("Sub", a, op("Gather", np.array([*breaks[:1], *breaks, 0.0]), piece))
    value = op("Mul", x, 0.0)
    for column in coef.T[::-1]:
        value = op("Add", op("Mul", value, x), op("Gather", column, piece))
    return value


def _top(op, a, tolerance):
    near = op("GreaterOrEqual", a, op("Sub", op("GatherElements", a, op("ArgMax", a)), tolerance))
    first = op("Equal", op("CumSum", op("Cast", near), 1), 1.0)
    return op("Cast", op("And", near, first))


def _normalise(op, a, b):
    total = op("ReduceSum", a, [1])
    some = op("Greater", total, 0.0)
    return op("Where", some, op("Div", a, op("Where", some, total, 1.0)), b)


#: Each operation by operators of ONNX, the forms of its parameters, and the number of its arrays.
_STEPS: dict[str, Any] = {
    "scale": lambda op, a, factor, shift: op("Add", op("Mul", a, factor), shift),
    "matrix": lambda op, a, coef: op("MatMul", a, coef),
    **{"curve": _curve, "log": _log, "top": _top, "normalise": _normalise},
    "softmax": lambda op, a: op("Softmax", a),
    "log_softmax": lambda op, a: op("LogSoftmax", a),
    "sigmoid": lambda op, a: op("Sigmoid", a),
    "product": lambda op, a, b: op("Mul", a, b),
    "sum": lambda op, *of: reduce(partial(op, "Add"), of),
    "columns": lambda op, *of: op("Concat", *of),
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "scale": {"factor": (float, [float]), "shift": (float, [float])},
    "matrix": {"coef": [[float]]},
    "curve": {"breaks": [float], "coef": [[float]]},
    **{"log": {"least": float, "far": float}, "top": {"tolerance": float}},
}
_ARRAYS = {"product": {2}, "normalise": {2}, "sum": range(1, 10**6), "columns": range(1, 10**6)}
_FORM = {"skcalib": int, "map": str, "input": str, "classes": list, "steps": [dict]}

_ATTRIBUTES: dict[str, dict[str, Any]] = {
    **{"Softmax": {"axis": 1}, "LogSoftmax": {"axis": 1}, "Concat": {"axis": 1}},
    **{"ArgMax": {"axis": 1}, "GatherElements": {"axis": 1}, "Cast": {"to": 11}},
}
_NUMPY = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum},
    **{"Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal},
    **{"And": np.logical_and, "Where": np.where, "Log": np.log, "MatMul": np.matmul},
    **{"Gather": np.take, "CumSum": np.cumsum, "Sigmoid": expit},
    **{"Softmax": partial(softmax, axis=1), "LogSoftmax": partial(log_softmax, axis=1)},
    "GatherElements": partial(np.take_along_axis, axis=1),
    "ArgMax": partial(np.argmax, axis=1, keepdims=True),
    "ReduceSum": lambda a, axes: a.sum(axis=1, keepdims=True),
    "Concat": lambda *of: np.concatenate(of, axis=1),
    "Cast": lambda a: a.astype(np.float64),
}


def _run(document, x, op=lambda name, *of: _NUMPY[name](*of)):
    """Probabilities of a document, by operators of NumPy or as nodes of a `_Graph`."""
    values = [x]
    for step in document["steps"]:
        names = step.keys() - {"op", "of"}
        parameters = {name: np.array(step[name], float) for name in names}
        values.append(_STEPS[step["op"]](op, *(values[k] for k in step["of"]), **parameters))
    return values[-1]


# --- Documents that are read ----------------------------------------------------------------------


class _ExportedMap(Recalibrator):
    """The map of a document, which is valid."""

    def __init__(self, document):
        super().__init__(input=document["input"])
        self.document, self.classes_ = document, check_label_list(np.array(document["classes"]))

    def _fit_map(self, samples):
        raise ValueError("A map from JSON cannot be fitted: fit a recalibrator of skcalib.")

    def _read(self, values):
        return values.astype(np.float64)

    def _apply_map(self, x):
        return _run(self.document, x)


class _ExportedLabels(MultilabelRecalibrator):
    """The map of a document of several labels, which is valid."""

    def __init__(self, document):
        super().__init__()
        self.document, self.labels_ = document, np.array(document["classes"])

    def predict_proba(self, X):
        proba = check_label_probabilities(X, self.labels_, name="X")
        return _run(self.document, proba)


def _check(document):
    """Raise unless each step fits the arrays that it takes."""
    form = has_form(document, _FORM) and document["input"] in ("proba", "logits", "labels")
    require(form, "its form")
    widths = [len(document["classes"])]
    for number, step in enumerate(document["steps"], 1):
        op, of = step["op"], step["of"]
        form = {"op": str, "of": [int]} | _PARAMETERS.get(op, {})
        known = op in _STEPS and has_form(step, form) and len(of) in _ARRAYS.get(op, {1})
        require(known and max(of) < number, f"step {number}")
        widths.append(_width(step, [widths[k] for k in of]))
        require(widths[-1], f"step {number}")
    require(widths[-1] == widths[0], "its last step")


def _width(step, widths):
    """Columns of the result of a step; 0 where its parameters do not fit the arrays."""
    op, widest, rows = step["op"], max(widths), step.get("coef", [[0]])
    if len({*map(len, rows)}) != 1 or not rows[0]:
        return 0
    if op == "matrix":
        return len(rows[0]) * (len(rows) == widest)
    if op == "columns":  # of one column each, so that the width is that of the list
        return len(widths) * (widest == 1)
    if op == "curve":
        ordered = step["breaks"] == sorted(step["breaks"])
        return widest * (len(rows) == len(step["breaks"]) + 1 and ordered)
    parameters = (value for name, value in step.items() if name != "of")
    lengths = {len(value) for value in parameters if isinstance(value, list)}
    return widest * ({1, widest} >= set(widths) and lengths <= {widest})
