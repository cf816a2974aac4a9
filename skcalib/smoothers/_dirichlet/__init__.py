"""Sums of Dirichlet kernels: near-linear for two columns, blocked and exact for more."""
