r"""Directions of logits at some forecasts, and sums over samples of their products.

A direction of one class, or of the most likely class, is zero elsewhere. `BasisBlock` uses this:
with K classes it needs sums of the order :math:`n K^2` where arrays of shape (n, K, J) would need
:math:`n K^3`. `skcalib.links.basis` defines the directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from skcalib._util.arithmetic import centred

FEW_CLASSES = 20  # up to which there may be constants for each class and each most likely class


@dataclass(frozen=True)
class BasisBlock:
    r"""Directions at some forecasts, and their sums.

    Sample i has the directions :math:`g_i` (K, J), probabilities :math:`p_i` (K,), the mean
    direction :math:`m_i = \sum_k p_{ik} g_{ik}`, and the tangents :math:`h_{ik} = p_{ik} (g_{ik} -
    m_i)`, the derivatives of p in the parameters.

    ``log`` are the logarithms of the forecasts. Directions are, in this order: ``dense`` (d, n, K),
    different from zero everywhere; for each class one that is ``factors[k]`` (n, K) in its own
    column and zero in the others, where None stands for ones; ``top`` (t, n), different from zero
    in the column ``column`` of each sample only; with ``confusion`` a constant for each class and
    each value of ``column``. ``mix`` (J0, J) has the directions of the basis as combinations of
    these; None if they are the same.
    """

    log: np.ndarray
    dense: np.ndarray | None
    factors: tuple
    top: np.ndarray | None
    column: np.ndarray
    confusion: bool
    mix: Any

    def logits(self, theta: np.ndarray) -> np.ndarray:
        r"""Logarithms plus :math:`\sum_j \theta_j g_{ikj}`, (n, K)."""
        return self._add(self.log.copy(), theta if self.mix is None else self.mix @ theta)

    def changes(self, theta: np.ndarray) -> np.ndarray:
        r""":math:`\sum_j \theta_{ij} g_{ikj}` for parameters (n, J) of each sample, (n, K)."""
        theta = theta if self.mix is None else (self.mix @ theta.T).T
        return self._add(np.zeros_like(self.log), theta)

    def _add(self, values, theta):
        """Add directions before mixing, times parameters (J0,), or (n, J0) of each sample."""
        n_classes, of_each, ends = self.log.shape[1], theta.ndim == 2, self._ends
        if self.dense is not None and of_each:
            values += np.einsum("id,dik->ik", theta[:, : ends.dense], self.dense)
        elif self.dense is not None:
            values += (theta[: ends.dense] @ self._flat).reshape(values.shape)
        for start, factor in zip(
            range(ends.dense, ends.factors, n_classes), self.factors, strict=True
        ):
            values += _times(theta[..., start : start + n_classes], factor)
        if self.top is not None:
            of_top = theta[..., ends.factors : ends.top]
            added = np.einsum("it,ti->i", of_top, self.top) if of_each else of_top @ self.top
            values[self._at_top] += added
        if self.confusion:
            constants = theta[..., ends.top :].reshape(*theta.shape[:-1], n_classes, n_classes)
            values += constants[self._at_top] if of_each else constants[self.column]
        return values

    def project(self, q: np.ndarray, matrix: np.ndarray | None = None) -> np.ndarray:
        r""":math:`\sum_k q_{ik} g_{ik}`, (n, J), or its product with a matrix (J, c)."""
        if self.mix is None:
            return self._project(q) if matrix is None else self._project(q) @ matrix
        mixed = self.mix if matrix is None else self.mix @ matrix
        mixed = mixed.toarray() if issparse(mixed) else mixed
        projections = self._project(q) @ mixed[: self._ends.top]
        for rows, places in self._constants:
            projections[rows] += q[rows] @ mixed[places]
        return projections

    def values(self) -> np.ndarray:
        """The directions (n, K, J) of the second class of two, (n, 1, J), or of all classes."""
        top: Any = self.top
        if self._binary:
            return top.T[:, None]
        n_samples, n_classes = self.log.shape
        end = self._ends.top
        values, at = np.zeros((n_samples, n_classes, end)), 0
        if self.dense is not None:
            at = len(self.dense)
            values[:, :, :at] = np.moveaxis(self.dense, 0, 2)
        classes = np.arange(n_classes)
        for factor in self.factors:
            values[:, classes, at + classes] = 1.0 if factor is None else factor
            at += n_classes
        if self.top is not None:
            values[np.arange(n_samples), self.column, at:] = top.T
        if self.mix is None:
            return values
        mix = self.mix.toarray() if issparse(self.mix) else self.mix
        values = values @ mix[:end]
        if self.confusion:
            values += mix[end + self.column[:, None] * n_classes + classes]
        return values

    def tangents(self, p: np.ndarray) -> np.ndarray:
        """Derivatives of probabilities p (n, K) along the `values`, of the same shape."""
        g = self.values()
        proba = p[:, -g.shape[1] :]
        return proba[:, :, None] * (g - np.einsum("ik,ikj->ij", proba, g)[:, None])

    def total(self, q: np.ndarray) -> np.ndarray:
        r""":math:`\sum_{ik} q_{ik} g_{ik}`, (J,), or (r, J) for q of shape (r, n, K)."""
        parts, start, ones = [], q.shape[:-2], np.ones(len(self.log))
        if self.dense is not None:
            parts.append(q.reshape(*start, -1) @ self._flat.T)
        parts += [ones @ _times(q, factor) for factor in self.factors]
        if self.top is not None:
            parts.append(self._at_column(q) @ self.top.T)
        if self.confusion:
            parts.append((self._indicators @ q).reshape(*start, -1))
        total = np.concatenate(parts, axis=-1)
        return total if self.mix is None else total @ self.mix

    def information(self, p: np.ndarray, weight: np.ndarray) -> np.ndarray:
        r""":math:`\sum_i w_i (\sum_k p_{ik} g_{ik} g_{ik}^\top - m_i m_i^\top)`, (J, J)."""
        if self._binary:
            return self._weighted_squares(weight * p[:, 0] * p[:, 1])
        mean = np.sqrt(weight)[:, None] * p
        gram = self._gram(weight[:, None] * p) - self._cross_gram(mean, mean)
        return gram if self.mix is None else self.mix.T @ gram @ self.mix

    def information_diagonal(self, p: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Diagonal of `information`, (J,)."""
        top: Any = self.top
        if self._binary:
            return np.square(top) @ (weight * p[:, 0] * p[:, 1])
        q, parts = weight[:, None] * p, []
        if self.dense is not None:
            parts.append(np.square(self._flat) @ q.ravel())
        parts += [(q if f is None else q * f**2).sum(axis=0) for f in self.factors]
        if top is not None:
            parts.append(np.square(top) @ self._at_column(q))
        if self.confusion:
            parts.append((self._indicators @ q).ravel())
        end = self._ends.top
        mean = self._project(p)
        if self.mix is None:
            return np.concatenate(parts) - weight @ mean**2
        # What is combined has its value at different classes, so there are no products of these.
        diagonal, free = np.concatenate(parts) @ self.mix**2, p.shape[1] - 1
        cut = self.mix.shape[1] - len(self._constants) * free
        for k, (rows, places) in enumerate(self._constants):
            columns = slice(cut + k * free, cut + (k + 1) * free)
            combined = p[rows] @ self.mix[places, columns]
            diagonal[columns] -= weight[rows] @ combined**2
        diagonal[:cut] -= weight @ (mean @ self.mix[:end, :cut]) ** 2
        return diagonal

    def leverage(self, p: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """Trace of `matrix` times the information of each sample, (n,)."""
        if self._binary:
            return p[:, 0] * p[:, 1] * _column_squares(self.top, matrix)
        matrix = self._before_mix(matrix)
        return self._quadratic(p, matrix) - self._form(p, p, matrix)

    def tangent_project(
        self, p: np.ndarray, r: np.ndarray, matrix: np.ndarray | None = None
    ) -> np.ndarray:
        r""":math:`\sum_k h_{ik} r_{ik}`, (n, J), or its product with a matrix (J, c)."""
        return self.project(p * centred(p, r), matrix)

    def tangent_gram(self, p: np.ndarray, weight: np.ndarray) -> np.ndarray:
        r""":math:`\sum_{ik} w_i h_{ik} h_{ik}^\top`, (J, J)."""
        if self._binary:
            return self._weighted_squares(2 * weight * (p[:, 0] * p[:, 1]) ** 2)
        square = p**2
        cross = self._cross_gram(weight[:, None] * _beyond(p, square), p)
        gram = self._gram(weight[:, None] * square) + cross + cross.T
        return gram if self.mix is None else self.mix.T @ gram @ self.mix

    def tangent_squares(self, p: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        r""":math:`\sum_k h_{ik}^\top P h_{ik}` with P = `matrix`, (n,)."""
        if self._binary:
            return 2 * (p[:, 0] * p[:, 1]) ** 2 * _column_squares(self.top, matrix)
        matrix = self._before_mix(matrix)
        square = p**2
        return self._quadratic(square, matrix) + 2 * self._form(_beyond(p, square), p, matrix)

    @property
    def _binary(self):
        return self.log.shape[1] == 2

    def _cross_gram(self, q, r):
        """Sum of the products of the projections of q and r before mixing, (J0, J0)."""
        first = self._project(q)
        second = first if r is q else self._project(r)
        if not self.confusion:
            return first.T @ second
        end, size = self._ends.top, self._ends.all
        gram = np.zeros((size, size))
        gram[:end, :end] = first.T @ second
        for rows, places in self._constants:
            gram[places, places] = q[rows].T @ r[rows]
            gram[places, :end] = q[rows].T @ second[rows]
            gram[:end, places] = first[rows].T @ r[rows]
        return gram

    def _form(self, q, r, matrix):
        """Products of the projections of q and r with a symmetric matrix before mixing, (n,)."""
        first = self._project(q)
        second = first if r is q else self._project(r)
        end = self._ends.top
        products = np.einsum("ij,ij->i", first @ matrix[:end, :end], second)
        for rows, places in self._constants:
            cross = first[rows] @ matrix[:end, places] + q[rows] @ matrix[places, places]
            products[rows] += np.einsum("ik,ik->i", cross, r[rows])
            cross = second[rows] @ matrix[:end, places]
            products[rows] += np.einsum("ik,ik->i", cross, q[rows])
        return products

    def _project(self, q):
        """Projections (n, j) on the directions before mixing, without those of confusion."""
        parts = []
        if self.dense is not None:
            products = (self.dense * q).reshape(-1, q.shape[1])
            parts.append((products @ np.ones(q.shape[1])).reshape(-1, len(q)).T)
        parts += [_times(q, factor) for factor in self.factors]
        if self.top is not None:
            parts.append((self._at_column(q) * self.top).T)
        if not parts:
            return np.empty((len(q), 0))
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def _before_mix(self, matrix):
        """A quadratic form as one of the directions before they are combined, (J0, J0)."""
        return matrix if self.mix is None else self.mix @ matrix @ self.mix.T

    def _weighted_squares(self, weight):
        return (self.top * weight) @ self.top.T

    def _gram(self, q):
        """Sum of q g g' over samples and classes, before directions are combined, (J0, J0)."""
        d, start, end, size = self._ends
        at_column, constants = self._at_column(q), self._confusion_rows()
        total = np.zeros((size, size))
        if self.dense is not None:
            weighted, ones = self.dense * q, np.ones(len(q))
            total[:d, :d] = weighted.reshape(d, -1) @ self._flat.T
            if self.top is not None:
                total[:d, start:end] = (self._at_column(self.dense) * at_column) @ self.top.T
            if self.confusion:
                sums = np.stack([self._indicators @ row for row in weighted])
                total[:d, end:] = sums.reshape(d, -1)
            for places, factor in zip(self._factor_places, self.factors, strict=True):
                total[:d, places] = ones @ _times(weighted, factor)
        for j, rows in enumerate(self._factor_places):
            first = _times(q, self.factors[j])
            for columns, factor in zip(self._factor_places[j:], self.factors[j:], strict=True):
                total[rows, columns] = _times(first, factor).sum(axis=0)
            if self.top is not None:
                weighted = self._at_column(first) * self.top
                total[rows, start:end] = self._indicators @ weighted.T
            if self.confusion:
                total[rows, constants] = self._indicators @ first
        if self.top is not None:
            total[start:end, start:end] = self._weighted_squares(at_column)
            if self.confusion:
                sums = self._indicators @ (self.top * at_column).T
                total[start:end, np.diag(constants)] = sums.T
        if self.confusion:
            total[constants, constants] = self._indicators @ q
        upper = np.triu(total)
        return upper + np.triu(upper, 1).T

    @cached_property
    def _ends(self):
        n_classes = self.log.shape[1]
        dense = 0 if self.dense is None else len(self.dense)
        factors = dense + n_classes * len(self.factors)
        top = factors + (0 if self.top is None else len(self.top))
        return _Ends(dense, factors, top, top + n_classes**2 * self.confusion)

    @property
    def _factor_places(self):
        """Numbers (K,) of the directions of each factor, before mixing."""
        classes, ends = np.arange(self.log.shape[1]), self._ends
        return [at + classes for at in range(ends.dense, ends.factors, len(classes))]

    def _confusion_rows(self):
        """Numbers (K, K) of the constants by column and class, before mixing; (0, K) without."""
        return np.arange(self._ends.top, self._ends.all).reshape(-1, self.log.shape[1])

    def _quadratic(self, q, matrix):
        """Sum of q g' P g over classes, (n,), with a symmetric P of directions before mixing."""
        d, start, end, _ = self._ends
        blocks, constants = self._factor_places, self._confusion_rows()
        by_class = np.zeros_like(q)
        if self.dense is not None:
            by_class += _column_squares(self._flat, matrix[:d, :d]).reshape(q.shape)
            if self.confusion:
                by_class += 2 * (self.dense * matrix[:d, constants][:, self.column]).sum(axis=0)
        for j, factor in enumerate(self.factors):
            part = np.zeros_like(q)
            if self.dense is not None:
                part += 2 * np.einsum("dik,dk->ik", self.dense, matrix[:d, blocks[j]])
            part += _times(matrix[blocks[j], blocks[j]], factor)
            for places, second in zip(blocks[j + 1 :], self.factors[j + 1 :], strict=True):
                part += _times(2 * matrix[blocks[j], places], second)
            if self.confusion:
                part += 2 * matrix[blocks[j], constants][self.column]
            by_class += _times(part, factor)
        if self.confusion:
            by_class += matrix[constants, constants][self.column]
        sums = np.einsum("ik,ik->i", q, by_class)
        if self.top is not None:
            along = self.top.T @ matrix[start:end, start:end]
            if self.dense is not None:
                along += 2 * self._at_column(self.dense).T @ matrix[:d, start:end]
            for places, factor in zip(blocks, self.factors, strict=True):
                row = 2 * matrix[places, start:end][self.column]
                along += row if factor is None else row * self._at_column(factor)[:, None]
            if self.confusion:
                along += 2 * matrix[np.diag(constants), start:end][self.column]
            sums += self._at_column(q) * np.einsum("ij,ji->i", along, self.top)
        return sums

    @property
    def _flat(self):
        """The dense directions as rows (d, n K)."""
        return self.dense.reshape(len(self.dense), -1)

    @property
    def _at_top(self):
        """Index of the column of each sample; that of the second class of two."""
        return (slice(None), 1) if self._binary else (np.arange(len(self.log)), self.column)

    def _at_column(self, values):
        return values[(..., *self._at_top)]

    @cached_property
    def _constants(self):
        """The samples of each column, and the place of its constants before mixing."""
        return [
            (np.flatnonzero(self.column == k), slice(places[0], places[-1] + 1))
            for k, places in enumerate(self._confusion_rows())
        ]

    @cached_property
    def _indicators(self):
        """Indicators (K, n) of the column of each sample."""
        n_samples, n_classes = self.log.shape
        if n_classes <= FEW_CLASSES:  # making a sparse array takes longer than the products
            return (self.column == np.arange(n_classes)[:, None]).astype(np.float64)
        parts = (np.ones(n_samples), self.column, np.arange(n_samples + 1))
        return csr_array(parts, shape=(n_samples, n_classes)).T


class _Ends(NamedTuple):
    """Ends of the dense directions, of the factors, of those of the column, and of all."""

    dense: int
    factors: int
    top: int
    all: int


def _times(values, factor):
    return values if factor is None else values * factor


def _beyond(p, square):
    """p s / 2 - p^2 with the sum s of the squares of each row, (n, K)."""
    return 0.5 * square.sum(axis=1, keepdims=True) * p - square


def _column_squares(columns, matrix):
    """x' P x of each column x, (n,), with a symmetric P."""
    return np.einsum("ji,ji->i", matrix @ columns, columns)
