"""Sums of Dirichlet kernels: near-linear for two columns, exact by blocks for more."""
