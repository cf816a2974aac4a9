"""Scores of a forecast mean and variance."""

from skcalib.regression._moments import check_moments
from skcalib.scores import DawidSebastiani
from skcalib.tower import weighted_mean


def dawid_sebastiani_score(y_true, y_mean, y_var, *, sample_weight=None):
    r"""Dawid-Sebastiani score of forecast means and variances (G22, section 5).

    .. math:: \frac{1}{n} \sum_i \left( \frac{(y_i - \mu_i)^2}{v_i} + \log v_i \right)

    A proper loss: it is lowest in expectation where the forecast has the mean and the variance of
    the outcome, whatever its distribution; for Gaussian forecasts it is twice the negative
    log-likelihood, less :math:`\log 2 \pi`. Lower is better. It has no lower bound, and a change
    of the unit of y adds a constant, so only differences between forecasts of the same outcomes
    mean something.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes.
    y_mean : array-like of shape (n_samples,)
        Forecast means.
    y_var : array-like of shape (n_samples,)
        Forecast variances, positive. The square of the standard deviation that scikit-learn's
        regressors return.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean; a sample of weight zero does not count.

    Returns
    -------
    float
        The mean score, any real number.

    Raises
    ------
    ValueError
        If a variance is not positive, or the arrays do not fit together.

    See Also
    --------
    skcalib.DawidSebastiani : The score as an object, with its entropy and divergence.
    skcalib.VarianceScaling : The map of the variance that minimises it.

    Examples
    --------
    >>> from skcalib.regression import dawid_sebastiani_score
    >>> dawid_sebastiani_score([1.0, 3.0], y_mean=[0.0, 3.0], y_var=[1.0, 1.0])
    0.5
    """
    return mean_score(check_moments(y_true, y_mean, y_var, sample_weight))


def mean_score(moments):
    """Mean Dawid-Sebastiani score of validated `Moments`."""
    score = DawidSebastiani()
    loss = score.loss(score.statistic(moments.residual), moments.forecast)
    return float(weighted_mean(loss, moments.weight))
