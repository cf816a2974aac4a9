"""All settings of the benchmark, one after the other.

    python doc/benchmarks/recalibration/settings.py --cache FOLDER

lists them, and keeps the forecasts of the classifiers in a folder.
"""

import argparse
import warnings

from _setting import SEEDS
from classifiers import DATA, SHIPPED, shipped, task, tasks
from worlds import draw, worlds


def settings(seeds="dev", *, cache=None, tiers=(1, 2, 3)):
    """Yield every `Setting` of the seeds "dev" or "holdout".

    `cache` is a folder that keeps the forecasts of the classifiers, which take half a minute.
    """
    if 1 in tiers:
        for world in worlds():
            yield draw(seeds, *world)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of networks that have not converged
        if 2 in tiers:
            for one in tasks():
                yield task(seeds, *one, cache=cache)
        if 3 in tiers:
            for data in DATA:
                for family in SHIPPED[seeds]:
                    yield from shipped(seeds, data, family, cache=cache)


def main():
    """List the settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", choices=SEEDS, default="dev")
    parser.add_argument("--cache", metavar="FOLDER", help="keeps the classifiers' forecasts")
    arguments = parser.parse_args()
    for one in settings(arguments.seeds, cache=arguments.cache):
        print(one.tier, one.name, one.kind, one.y_proba.shape, one.test_proba.shape, sep="; ")


if __name__ == "__main__":
    main()
