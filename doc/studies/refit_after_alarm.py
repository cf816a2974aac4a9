"""When to refit a map of a stream: the log loss of five ways, week by week, before the labels.

Weeks of 100 forecasts; in the middle of the stream the log odds of the event change by a shift, or
their slope does. Each way maps the forecasts of a week before it learns their labels. Printed is
the mean excess of the log loss over that of the true probabilities, in thousandths of a nat, for
the first half, the 20 weeks after the change, and the rest, with standard errors over streams.

    python doc/studies/refit_after_alarm.py --streams 40
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from skcalib import CalibrationMonitor, PlattScaling

WEEK, N_WEEKS = 100, 120
CHANGES = {
    "none": (0.0, 1.0),
    "shift of .7": (0.7, 1.0),
    "shift of .3": (0.3, 1.0),
    "slope of .5": (0.0, 0.5),
}
LABELS = [0, 1]


def stream(change, rng):
    """Forecasts, labels and true probabilities of one stream."""
    shift, slope = CHANGES[change]
    z = rng.normal(0, 1.5, WEEK * N_WEEKS)
    later = np.arange(len(z)) >= len(z) // 2
    risk = expit(np.where(later, slope * z - shift, z))
    return expit(z), (rng.random(len(z)) < risk).astype(int), risk


class AllSamples:
    """One map, which learns all samples since the start."""

    def __init__(self):
        self.map = PlattScaling(labels=LABELS)

    def forecast(self, p):
        return self.map.predict_proba(p)[:, 1] if hasattr(self.map, "classes_") else p

    def learn(self, p, y):
        self.map.partial_fit(p, y)


class NoMap(AllSamples):
    """The forecasts as they are."""

    def learn(self, p, y):
        pass


class LastWeeks(AllSamples):
    """A map of the last ten weeks, fitted each week."""

    def __init__(self):
        super().__init__()
        self.p, self.y = [], []

    def learn(self, p, y):
        self.p, self.y = [*self.p, p][-10:], [*self.y, y][-10:]
        self.map.fit(np.concatenate(self.p), np.concatenate(self.y))


class AfterAlarm(AllSamples):
    """No map until an alarm; then one of the samples since the estimated change, and later ones.

    A monitor of the issued forecasts begins again with each map.
    """

    refits = True

    def __init__(self):
        super().__init__()
        self.p, self.y, self.issued = np.zeros(0), np.zeros(0, dtype=int), None
        self.begin(0)

    def begin(self, start):
        self.monitor, self.start = CalibrationMonitor(alpha=1e-5), start

    def forecast(self, p):
        self.issued = super().forecast(p)
        return self.issued

    def learn(self, p, y):
        self.p, self.y = np.append(self.p, p), np.append(self.y, y)
        if self.monitor.partial_fit(y, self.issued).alarms_:
            since = self.start + self.monitor.alarms_[0].since
            self.map = PlattScaling(labels=LABELS).partial_fit(self.p[since:], self.y[since:])
            self.begin(len(self.p))
        elif self.refits and hasattr(self.map, "classes_"):
            self.map.partial_fit(p, y)


class OnceAfterAlarm(AfterAlarm):
    """As `AfterAlarm`, without learning anything between two alarms."""

    refits = False


WAYS = {
    "no map": NoMap,
    "all samples": AllSamples,
    "last ten weeks": LastWeeks,
    "since the alarm, fitted once": OnceAfterAlarm,
    "since the alarm, partial_fit": AfterAlarm,
}


def excess(way, p, y, risk):
    """Mean excess of the log loss in the three parts of a stream, in thousandths of a nat."""
    weekly = []
    for rows in np.split(np.arange(len(p)), N_WEEKS):
        q = np.clip(way.forecast(p[rows]), 1e-12, 1 - 1e-12)
        r = risk[rows]  # in expectation over the labels
        weekly.append(np.mean(r * np.log(r / q) + (1 - r) * np.log((1 - r) / (1 - q))))
        way.learn(p[rows], y[rows])
    half = N_WEEKS // 2
    return [
        1000 * np.mean(weekly[a:b]) for a, b in ((0, half), (half, half + 20), (half + 20, None))
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=40)
    n_streams = parser.parse_args().streams
    warnings.simplefilter("ignore", ConvergenceWarning)
    for change in CHANGES:
        print(change)
        for name, way in WAYS.items():
            found = [
                excess(way(), *stream(change, np.random.default_rng(seed)))
                for seed in range(n_streams)
            ]
            error = np.std(found, axis=0, ddof=1) / np.sqrt(n_streams)
            cells = (
                f"{m:7.2f} ± {e:.2f}" for m, e in zip(np.mean(found, axis=0), error, strict=True)
            )
            print(f"  {name:34}", *cells, flush=True)


if __name__ == "__main__":
    main()
