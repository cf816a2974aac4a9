r"""
Add a kernel
============

The kernel calibration error takes any positive semi-definite kernel on the simplex. The rational
quadratic kernel :math:`(1 + d^2 / (2 a \nu^2))^{-a}` is a mixture of Gaussian kernels of all
widths, so it has some power against narrow and against broad errors. It needs one method, and a
bound.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from skcalib import kernel_calibration_test
from skcalib.datasets import make_widmann
from skcalib.kernels import GaussianKernel, Kernel, LaplacianKernel
from skcalib.testing import check_kernel

# %%
# The class. Kernels are immutable and comparable, hence the frozen dataclass.


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """A mixture of Gaussian kernels of all widths around `width`."""

    width: float = 0.2
    power: float = 1.0

    def __call__(self, x, y):
        return (1 + cdist(x, y, "sqeuclidean") / (2 * self.power * self.width**2)) ** -self.power

    def bound(self):
        return 1.0


# %%
# The one-line test: symmetric, positive semi-definite, bounded.

check_kernel(RationalQuadratic())

# %%
# It is now a kernel like the others, also in sums and products. Which share of 20 data sets is
# rejected at the 5 % level? For the calibrated model M1 it should be about 5 % (a Monte Carlo error
# of 5 %), for the others as large as possible.

KERNELS = {
    "Laplacian": LaplacianKernel(),
    "Gaussian": GaussianKernel(),
    "rational quadratic": RationalQuadratic(),
    "sum of both": RationalQuadratic() + LaplacianKernel(),
}


def rejects(data, kernel):
    """With so few samples a class may have no label, so the classes of the columns are named."""
    test = kernel_calibration_test(data.y, data.y_proba, kernel=kernel, labels=range(10))
    return test.pvalue < 0.05


fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for shift, model in zip((-0.25, 0, 0.25), ("M1", "M2", "M3"), strict=True):
    draws = [make_widmann(60, model=model, random_state=seed) for seed in range(20)]
    power = [np.mean([rejects(d, kernel) for d in draws]) for kernel in KERNELS.values()]
    ax.barh(np.arange(len(KERNELS)) + shift, power, 0.22, label=model)
ax.set_yticks(range(len(KERNELS)), KERNELS)
ax.axvline(0.05, color="black", linestyle="--", linewidth=1)
ax.invert_yaxis()
ax.set(xlabel="rejected", xlim=(0, 1.02))
fig.legend(loc="outside right center")
plt.show()
