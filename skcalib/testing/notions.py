"""Laws of notions of calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skcalib.data.notions import Notion
from skcalib.testing._laws import (
    accepted,
    checker,
    need,
    need_close,
    need_probabilities,
    run_laws,
    simplex_points,
)


@checker
def check_notion(
    notion: Notion, *, n_classes: Sequence[int] = (2, 3, 10), random_state: int = 0
) -> None:
    """Check that an object satisfies the laws of notions of calibration.

    A notion maps forecasts and targets (n, K) to problems with their own columns. The laws, for
    each number of classes for which the notion does not raise a ValueError:

    - it is a `Notion` with ``reduce`` "mean" or "sum";
    - there is at least one problem, each with a forecast and a target of equal shape
      (n, columns), columns >= 2, and inputs are not modified;
    - no mass is lost: rows of both sides are probability vectors;
    - labels remain labels: one-hot targets give one-hot targets;
    - calibrated forecasts remain calibrated: equal forecasts and targets give equal images;
    - the image of the target is linear in the target, and that of the forecast does not depend
      on the target;
    - the image of a row depends on that row only.

    Parameters
    ----------
    notion : Notion
        Instance to check.

    See Also
    --------
    skcalib.data.notions.Notion : The base class.

    Examples
    --------
    >>> from skcalib.data.notions import TopK
    >>> from skcalib.testing import check_notion
    >>> check_notion(TopK(3))
    """
    run_laws(notion, [_is_a_notion])
    worlds = {k: _world(k, np.random.default_rng(random_state)) for k in n_classes}
    for world in accepted(notion, worlds, lambda notion, world: _images(notion, *world[:2])):
        run_laws(notion, LAWS, *world)


def _world(n_classes, rng, n_samples=40):
    """Forecasts with ties and corners, conditional expectations, and one-hot labels."""
    forecast = simplex_points(rng, n_samples, n_classes)
    forecast[:n_classes] = np.eye(n_classes)
    forecast[n_classes : n_classes + 2] = forecast[-2]
    forecast[-3, :2] = forecast[-3, :2].mean()  # two classes are equally likely
    labels = np.eye(n_classes)[rng.integers(n_classes, size=n_samples)]
    return forecast, rng.dirichlet(np.ones(n_classes), n_samples), labels


def _images(notion, forecast, target):
    return list(notion.problems(forecast, target))


def _is_a_notion(notion):
    """It is a Notion that reduces by the mean or the sum."""
    need(isinstance(notion, Notion), "an instance that derives from Notion is needed")
    need(notion.reduce in ("mean", "sum"), f"reduce is {notion.reduce!r}")


def _shapes(notion, forecast, target, labels):
    """There are problems of two columns or more, and inputs are not modified."""
    forecast_before, target_before = forecast.copy(), target.copy()
    images = _images(notion, forecast, target)
    need(np.array_equal(forecast, forecast_before), "the forecast was modified")
    need(np.array_equal(target, target_before), "the target was modified")
    need(len(images) > 0, "there is no problem")
    for image, aim in images:
        need(image.shape == aim.shape, f"shapes {image.shape} and {aim.shape} in one problem")
        need(image.ndim == 2 and len(image) == len(forecast), f"shape {image.shape}")
        need(image.shape[1] >= 2, "a problem of a single column")


def _mass(notion, forecast, target, labels):
    """No mass is lost: all rows are probability vectors."""
    for image, aim in _images(notion, forecast, target):
        need_probabilities(image, "rows of the forecast")
        need_probabilities(aim, "rows of the target")


def _labels(notion, forecast, target, labels):
    """Labels remain labels: one-hot targets give one-hot targets."""
    for _, aim in _images(notion, forecast, labels):
        need((aim == 0) | (aim == 1), "an entry between 0 and 1")


def _calibrated(notion, forecast, target, labels):
    """Calibrated forecasts remain calibrated."""
    for image, aim in _images(notion, forecast, forecast.copy()):
        need_close(image, aim, "images of equal forecasts and targets", tolerance=1e-12)


def _linear(notion, forecast, target, labels):
    """The image of the target is linear in it, that of the forecast does not depend on it."""
    triple = zip(
        _images(notion, forecast, target),
        _images(notion, forecast, labels),
        _images(notion, forecast, 0.3 * target + 0.7 * labels),
        strict=True,
    )
    for (image, first), (again, second), (_, mixed) in triple:
        need(np.array_equal(image, again), "the image of the forecast changes with the target")
        need_close(mixed, 0.3 * first + 0.7 * second, "target of a mixture", tolerance=1e-12)


def _row_wise(notion, forecast, target, labels):
    """The image of a row depends on that row only."""
    rows = np.arange(len(forecast))[::-3]
    parts = _images(notion, forecast[rows], target[rows])
    for whole, part in zip(_images(notion, forecast, target), parts, strict=True):
        for before, after in zip(whole, part, strict=True):
            need_close(after, before[rows], "image of some of the rows", tolerance=1e-12)


LAWS = (_shapes, _mass, _labels, _calibrated, _linear, _row_wise)
