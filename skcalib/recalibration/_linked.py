"""Recalibrators that fit a link to all logits at once, with shrinkage chosen by themselves."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._arguments import check_loss
from skcalib.inference import first_within_one_standard_error
from skcalib.links import LinkFit, fit_link
from skcalib.recalibration._base import LogitRecalibrator, softmax_of
from skcalib.recalibration.temperature import fit_temperature, warn_at_the_ends
from skcalib.smoothers._base import check_folds

#: Strengths of "auto", in samples, from temperature scaling alone to hardly any shrinkage.
STRENGTHS = (np.inf, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)


class LinkRecalibrator(LogitRecalibrator):
    """Base class: fits a link, from the optimal temperature on, with shrinkage towards it.

    Subclasses implement ``_link()`` and have the parameters ``shrinkage``, ``max_iter``, ``tol``.
    Logits enter as log-probabilities, so that the map is one of forecasts.
    """

    _rounding = 1e-13

    def _link(self):
        raise NotImplementedError

    def _read(self, X):
        logits = super()._read(X).astype(np.float64)
        if self.input == "logits":
            logits = logits - logits.max(axis=1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def _fit_map(self, logits, target, weight):
        score, n_classes = check_loss(self.loss), target.shape[1]
        self.shrinkage_ = self._strength(score, logits, target, weight)
        self._fitted = self._link().prepare(logits)
        beta, passes = fit_temperature(score, logits, target, weight)
        first = self._tempered(self._fitted, n_classes, beta)
        if np.isinf(self.shrinkage_):
            fit = LinkFit(first, passes, True, "temperature scaling")
        else:
            fit = fit_link(
                self._fitted,
                score,
                logits,
                target,
                weight,
                shrinkage=self.shrinkage_,
                start=first,
                max_iter=self.max_iter,
                tolerance=self.tol,
                rounding=self._rounding,
            )
        self._theta, self.n_iter_ = fit.theta, fit.n_iter
        self.injective_ = self._fitted.injective(self._theta, n_classes)
        self.preserves_order_ = self._fitted.preserves_order(self._theta, n_classes)
        self.preserves_argmax_ = self.preserves_order_
        self._publish(n_classes)
        if beta > 1 or self.preserves_order_:
            warn_at_the_ends(beta)  # from an infinite temperature other maps find a way back
        self._warn(fit, np.sum(target * self._apply_map(logits), axis=1), target.sum(axis=0))

    def _warn(self, fit, hit, counts):
        """Say what happened where a parameter wants to be infinite, or the fit did not end."""
        name, kept = type(self).__name__, "the parameters are where the fit stopped, and finite"
        if not fit.converged:
            found = (
                f"{name} stopped after {fit.n_iter} iterations before its loss was minimal "
                f"({fit.message}): {kept}, and no worse than temperature scaling on the "
                "calibration set. Raise max_iter, or shrinkage"
            )
        elif self.shrinkage_ == 0 and hit.min() > 0.99:
            found = (
                f"The labels are separable, and the best map of {name} is infinitely steep: {kept}"
            )
        elif self.shrinkage_ == 0 and counts.min() == 0:
            found = f"Some classes have no label, and {name} sends their bias to -infinity: {kept}"
        else:
            return
        warnings.warn(f"{found}. shrinkage='auto' avoids it.", ConvergenceWarning, stacklevel=5)

    def _tempered(self, link, n_classes, beta):
        """Parameters of temperature scaling."""
        start = link.start(n_classes)
        start[0] = beta
        return start

    def _strength(self, score, logits, target, weight):
        """Shrinkage: as given, or the strongest within one standard error of the best."""
        if not isinstance(self.shrinkage, str) or self.shrinkage != "auto":
            try:
                strength = float(self.shrinkage)
            except (TypeError, ValueError):
                strength = -1.0
            if not strength >= 0:
                raise ValueError(
                    f"shrinkage must be 'auto' or a number that is not negative, got "
                    f"{self.shrinkage!r}."
                )
            return strength
        if len(target) < 10:
            return np.inf
        losses = self._held_out_losses(score, logits, target, weight)
        return STRENGTHS[first_within_one_standard_error(losses, weight)[0]]

    def _held_out_losses(self, score, logits, target, weight):
        """Losses (strengths, n) of five-fold cross-validation, strengths from the strongest on.

        Each fit begins where that of the next stronger shrinkage ended. The path is left where it
        has risen twice in a row. Folds run in parallel where `joblib.parallel_config` says so.
        """

        def at(rows):
            return logits[rows], target[rows], weight[rows]

        folds, losses, means = check_folds(5, target, random_state=0), [], []
        paths = Parallel()(delayed(self._path)(score, *at(train)) for train, _ in folds)
        for strength in STRENGTHS:
            steps = Parallel()(
                delayed(self._step)(score, *path, strength, at(train), at(test))
                for path, (train, test) in zip(paths, folds, strict=True)
            )
            held_out = np.empty(len(target))
            for k, (theta, loss) in enumerate(steps):
                paths[k], held_out[folds[k][1]] = (paths[k][0], theta), loss
            losses.append(held_out)
            means.append(weight @ held_out)
            if len(means) > 2 and min(means[-2:]) > min(means):
                break
        return np.array(losses)

    def _path(self, score, logits, target, weight):
        """The link of a fold, and where its path begins."""
        link = self._link().prepare(logits)
        beta, _ = fit_temperature(score, logits, target, weight)
        return link, self._tempered(link, target.shape[1], beta)

    def _step(self, score, link, theta, strength, train, test):
        """The next parameters on the path of a fold, and their losses on the samples left out."""
        if np.isfinite(strength):
            # Rough fits: differences between strengths are far above these tolerances.
            theta = fit_link(
                link,
                score,
                *train,
                shrinkage=strength,
                start=theta,
                max_iter=min(self.max_iter, 100),
                tolerance=max(self.tol, 1e-5),
                rounding=1e-9,
            ).theta
        logits, target, _ = test
        return theta, score.logit_loss(target, link.apply(theta, logits))[0]

    def _publish(self, n_classes):
        """Set the public names of what was fitted."""

    def _apply_map(self, logits):
        return softmax_of(self._fitted.apply(self._theta, logits))
