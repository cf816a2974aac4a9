"""From the fits of all problems to the attributes of the estimator."""

import warnings

import numpy as np
from scipy.stats import norm

from skcalib.grouping._tests import bonferroni


def collect(estimator, fits, notion):
    """Set the attributes of the estimator from the fits of its problems."""
    share = 1 / len(fits) if notion.reduce == "mean" else 1.0

    def total(name):
        return float(share * sum(getattr(fit, name) for fit in fits))

    terms = map(total, ("plugin", "bias", "induced"))
    estimator.plugin_, estimator.bias_, estimator.induced_ = terms
    estimator.explained_ = estimator.plugin_ - estimator.bias_
    estimator.grouping_loss_ = total("lower_bound")
    estimator.calibration_error_ = total("calibration")
    estimator.expected_loss_ = total("mean_loss")
    estimator.epistemic_bound_ = estimator.calibration_error_ + estimator.grouping_loss_
    estimator.binned_epistemic_bound_ = (
        estimator.calibration_error_ + estimator.explained_ - total("correction")
    )
    estimator.irreducible_bound_ = estimator.expected_loss_ - estimator.epistemic_bound_
    if np.isinf(estimator.expected_loss_):  # the difference of two infinities: by the curve instead
        estimator.irreducible_bound_ = total("refinement") - estimator.grouping_loss_
    estimator.standard_error_ = float(share * sum(np.sqrt(fit.variance) for fit in fits))
    reach = float(norm.ppf(0.5 + estimator.confidence_level / 2)) * estimator.standard_error_
    bound = estimator.grouping_loss_
    estimator.confidence_interval_ = (bound - reach, bound + reach)
    estimator.pvalue_ = bonferroni([fit.pvalue for fit in fits])
    estimator.regions_ = sorted(
        (region for fit in fits for region in fit.table), key=lambda region: -region.harm
    )
    estimator.n_regions_ = sum(fit.n_regions for fit in fits)
    if estimator.method == "risk":
        estimator.scale_ = float(np.mean([fit.scale for fit in fits]))
    else:
        _warn(fits)


def _warn(fits):
    ratio = sum(fit.n_measured for fit in fits) / max(sum(fit.n_regions for fit in fits), 1)
    single = max(fit.singletons for fit in fits)
    # One or two of a dozen regions are more than 5 %, and no cause for alarm.
    several = max(fit.singletons * fit.n_regions for fit in fits) > 2.5
    if ratio < 6 or single > (0.05 if several else 0.25):
        warnings.warn(
            f"The regions hold {ratio:.1f} measured samples on average, and {100 * single:.0f} "
            "% of them a single one: the bound of the grouping loss is unreliable. Use more "
            "samples, fewer bins or a larger region_ratio (about 12).",
            UserWarning,
            stacklevel=4,
        )
