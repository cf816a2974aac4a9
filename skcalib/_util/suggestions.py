"""What was meant by a name or a value that is refused: "Did you mean 'top_label'?"."""

import re
from difflib import get_close_matches

from skcalib._util.messages import shown

#: What other packages and papers call a value, a parameter or a method, and its names here.
OTHER_NAMES = {
    # scores
    "brier_score": ("brier",),
    "cross_entropy": ("log",),
    "kl": ("log",),
    "log_loss": ("log",),
    "logloss": ("log",),
    "mse": ("brier",),
    "nll": ("log",),
    "squared": ("brier",),
    # notions
    "confidence": ("top_label", "confidence_level"),
    "marginal": ("classwise",),
    "multiclass": ("canonical",),
    "one_vs_rest": ("classwise",),
    "ordinal": ("cumulative",),
    "ovr": ("classwise",),
    "top": ("top_label",),
    "top_1": ("top_label",),
    # kernels, bins and maps
    "adaptive": ("quantile",),
    "equal_mass": ("quantile",),
    "equal_width": ("uniform",),
    "exponential": ("laplacian",),
    "histogram": ("uniform", "binning"),
    "linear": ("uniform",),
    "rbf": ("gaussian",),
    "sigmoid": ("platt",),
    # parameters
    "alpha": ("confidence_level",),
    "bins": ("n_bins",),
    "classes": ("labels",),
    "cluster": ("groups",),
    "clusters": ("groups",),
    "debias": ("debiased",),
    "jobs": ("n_jobs",),
    "level": ("confidence_level",),
    "method": ("recalibrator",),
    "metric": ("loss",),
    "n_bootstrap": ("n_resamples",),
    "n_permutations": ("n_resamples",),
    "positive_class": ("pos_label",),
    "probs": ("y_proba",),
    "score": ("loss",),
    "scoring": ("loss",),
    "seed": ("random_state",),
    "unbiased": ("debiased",),
    "weight": ("sample_weight",),
    "weights": ("sample_weight",),
    "y_pred": ("y_proba",),
    "y_prob": ("y_proba",),
    "y_score": ("y_proba",),
}
#: Least similarity of two strings, as `difflib` measures it.
_SIMILAR = 0.82


def suggestion(value, options):
    """The option that a string stands for, or None: the same letters, another name, or similar."""
    if not isinstance(value, str):
        return None
    options = [option for option in options if isinstance(option, str)]
    plain = {_letters(option): option for option in options}
    if _letters(value) in plain:
        return plain[_letters(value)]
    for name in OTHER_NAMES.get(re.sub(r"[\W_]+", "_", value).casefold(), ()):
        if name in options:
            return name
    close = get_close_matches(_letters(value), list(plain), n=1, cutoff=_SIMILAR)
    return plain[close[0]] if close else None


def did_you_mean(value, options):
    """The sentence with the suggestion, after a blank; empty if there is none."""
    name = suggestion(value, options)
    return "" if name is None else f" Did you mean {name!r}?"


def refusal(name, expected, value, options):
    """The error for an argument that is none of the options: what was expected, got and meant."""
    meant = did_you_mean(value, options)
    return ValueError(f"{name} must be {expected}, got {shown(value)}.{meant}")


def _letters(text):
    """Letters and digits without capitals and separators."""
    return re.sub(r"[\W_]", "", text).casefold()
