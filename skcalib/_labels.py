"""Labels, validated, and the class that each column of the forecast is the probability of."""

import re

import numpy as np
from scipy.sparse import issparse

from skcalib._array_api import to_numpy


def check_y(y_true, *, name="y_true"):
    """Labels of any orderable kind -> array (n,) without missing or continuous values."""
    y_true = to_numpy(y_true, name=name)
    y = None if issparse(y_true) else _as_array(y_true, name)
    if y is None or y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] != 1):
        shape = y_true.shape if y is None else y.shape
        raise ValueError(
            f"{name} must hold one label per sample, shape (n,); got shape {shape}. Turn one-hot "
            "rows into labels with .argmax(axis=1)."
        )
    y = y.ravel()
    if len(y) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed.")
    if y.dtype.kind == "O" and any(_is_missing(label) for label in y):
        raise ValueError(f"{name} contains missing values (NaN or None): remove these rows first.")
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold class labels.")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"{name} contains NaN or infinity: remove these rows first.")
        if np.any(y != np.floor(y)):
            raise ValueError(f"{name} holds continuous values: class labels are expected.")
    return y


def _as_array(y_true, name):
    """Labels as they are: numpy alone would make the string "nan" of a NaN among strings."""
    try:
        y = np.asarray(y_true)
        if y.dtype.kind in "US" and not hasattr(y_true, "dtype"):
            objects = np.asarray(y_true, dtype=object)
            if not all(isinstance(label, (str, bytes)) for label in objects.ravel()):
                return objects
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one label per sample, shape (n,): {in_words(error)}"
        ) from error
    return y


def in_words(error):
    """The message of another library as the end of a sentence: one line, one full stop."""
    line = re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", " ".join(str(error).split()))
    return line.rstrip(".") + "."


def listed(classes):
    """Classes for a message, where a thousand of them would hide what it says."""
    names = np.asarray(classes).tolist()
    if len(names) <= 12:
        return str(names)
    first = ", ".join(map(repr, names[:5]))
    return f"[{first}, ..., {names[-1]!r}] ({len(names)} in all)"


def _is_missing(label):
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA refuses to be compared
        return True


def check_classes(y, n_columns, *, labels=None, pos_label=None, name="y_proba"):
    """Names of the columns, in their order; ``n_columns=1`` is a binary forecast of shape (n,)."""
    classes = unique_labels(y) if labels is None else check_label_list(labels)
    if n_columns == 1 and len(classes) == 1:
        classes = _complete_single_class(classes, pos_label, name)
    if pos_label is not None:
        classes = put_positive_last(classes, pos_label, reorder=n_columns == 1)
    if len(classes) != max(n_columns, 2):
        holds = "y_true holds" if labels is None else "labels lists"
        columns = "one column (the positive class)" if n_columns == 1 else f"{n_columns} columns"
        raise ValueError(
            f"{holds} {len(classes)} classes but {name} has {columns}: pass labels= with the class "
            f"of each column of {name} (for a scikit-learn classifier: its classes_)."
        )
    return classes


def _complete_single_class(classes, pos_label, name):
    """One class in y_true and one column: only `pos_label` or 0/1 coding says what it means."""
    if pos_label is not None:
        other = None if classes[0] == pos_label else pos_label
        return np.array([classes[0], other], dtype=object)
    only = classes.tolist()[0]
    if isinstance(only, bool):
        return np.array([False, True])
    if classes.dtype.kind in "iufO" and isinstance(only, (int, float)) and only in (-1, 0, 1):
        return np.array([-1, 1]) if only == -1 else np.array([0, 1])
    raise ValueError(
        f"y_true holds the single class {only!r}, so it is unknown which class {name} of shape "
        "(n,) is the probability of: pass labels=[negative, positive] or pos_label=."
    )


def put_positive_last(classes, pos_label, *, reorder):
    """Two classes with `pos_label`, which must be one of them, in the last place."""
    if len(classes) > 2:
        raise ValueError(
            f"pos_label is for binary problems, but there are {len(classes)} classes: leave it "
            "out; where there is a notion=, 'classwise' shows every class."
        )
    found = [label == pos_label for label in classes]
    if not any(found):
        raise ValueError(f"pos_label={pos_label!r} is not one of the classes {classes.tolist()}.")
    return classes[::-1] if reorder and found[0] else classes


def unique_labels(y):
    """Sorted distinct labels; mixed types are refused."""
    try:
        return np.unique(y)
    except TypeError as error:
        raise ValueError("y_true mixes labels of types that cannot be ordered.") from error


def check_label_list(labels):
    """`labels` as an array without repetition, in the order given."""
    labels = np.asarray(to_numpy(labels, name="labels"))
    if labels.ndim != 1 or len(labels) < 2:
        raise ValueError("labels must list at least two classes, one for each column of y_proba.")
    if len(set(labels.tolist())) != len(labels):
        raise ValueError(f"labels holds a class twice: {listed(labels)}.")
    return labels


def one_hot(y, classes):
    """Labels (n,) and the classes of the K columns -> float64 array (n, K)."""
    target = np.asarray(y[:, None] == classes[None, :], dtype=np.float64)
    unknown = target.sum(axis=1) == 0
    if unknown.any():
        raise ValueError(
            f"y_true contains {y[unknown].tolist()[0]!r}, which is none of the classes "
            f"{listed(classes)}: pass labels= with the class of each column."
        )
    return target


def class_columns(y, classes):
    """Labels (n,) and the classes of the K columns -> the column of each label, (n,)."""
    distinct, which = np.unique(y, return_inverse=True)
    return one_hot(distinct, classes).argmax(axis=1)[which.ravel()]


def draw_codes(levels, rng):
    """A column drawn from each row of cumulated probabilities (n, K); never one of probability 0.

    Rows need not end in exactly 1: their last number stands for it.
    """
    at = rng.random_sample((len(levels), 1)) * levels[:, -1:]
    return (levels[:, :-1] <= at).sum(axis=1)
