r"""Directions of logits at some forecasts, and sums over samples of their products.

A direction of one class, or of the most likely class, is zero elsewhere. `BasisBlock` uses this:
with K classes it needs sums of the order :math:`n K^2` where arrays of shape (n, K, J) would need
:math:`n K^3`. `skcalib.links.basis` defines the directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skcalib._util.softmax import centred

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
        theta = theta if self.mix is None else self.mix @ theta
        found, at, n_classes = self.log.copy(), 0, self.log.shape[1]
        if self.dense is not None:
            at = len(self.dense)
            found += (theta[:at] @ self._flat).reshape(found.shape)
        for factor in self.factors:
            one = theta[at : at + n_classes]
            found += one if factor is None else factor * one
            at += n_classes
        if self.top is not None:
            end = at + len(self.top)
            added = theta[at:end] @ self.top
            if self._binary:
                found[:, 1] += added
            else:
                found[np.arange(len(found)), self.column] += added
            at = end
        if self.confusion:
            found += theta[at:].reshape(n_classes, n_classes)[self.column]
        return found

    def changes(self, theta: np.ndarray) -> np.ndarray:
        r""":math:`\sum_j \theta_{ij} g_{ikj}` for parameters (n, J) of each sample, (n, K)."""
        theta = theta if self.mix is None else (self.mix @ theta.T).T
        found, at, n_classes = np.zeros_like(self.log), 0, self.log.shape[1]
        if self.dense is not None:
            at = len(self.dense)
            found += np.einsum("id,dik->ik", theta[:, :at], self.dense)
        for factor in self.factors:
            one = theta[:, at : at + n_classes]
            found += one if factor is None else factor * one
            at += n_classes
        if self.top is not None:
            end = at + len(self.top)
            added = np.einsum("it,ti->i", theta[:, at:end], self.top)
            found[np.arange(len(found)), 1 if self._binary else self.column] += added
            at = end
        if self.confusion:
            own = theta[:, at:].reshape(len(found), n_classes, n_classes)
            found += own[np.arange(len(found)), self.column]
        return found

    def project(self, q: np.ndarray, matrix: np.ndarray | None = None) -> np.ndarray:
        r""":math:`\sum_k q_{ik} g_{ik}`, (n, J), or its product with a matrix (J, c)."""
        if self.mix is None:
            return self._project(q) if matrix is None else self._project(q) @ matrix
        mixed = self.mix if matrix is None else self.mix @ matrix
        mixed = mixed.toarray() if issparse(mixed) else mixed
        found = self._project(q) @ mixed[: self._layout()[2]]
        for rows, own in self._constants:
            found[rows] += q[rows] @ mixed[own]
        return found

    def values(self) -> np.ndarray:
        """The directions (n, K, J) of the second class of two, (n, 1, J), or of all classes."""
        top: Any = self.top
        if self._binary:
            return top.T[:, None]
        n_samples, n_classes = self.log.shape
        end = self._layout()[2]
        found, at = np.zeros((n_samples, n_classes, end)), 0
        if self.dense is not None:
            at = len(self.dense)
            found[:, :, :at] = np.moveaxis(self.dense, 0, 2)
        each = np.arange(n_classes)
        for factor in self.factors:
            found[:, each, at + each] = 1.0 if factor is None else factor
            at += n_classes
        if self.top is not None:
            found[np.arange(n_samples), self.column, at:] = top.T
        if self.mix is None:
            return found
        mix = self.mix.toarray() if issparse(self.mix) else self.mix
        found = found @ mix[:end]
        if self.confusion:
            found += mix[end + self.column[:, None] * n_classes + each]
        return found

    def tangents(self, p: np.ndarray) -> np.ndarray:
        """Derivatives of probabilities p (n, K) along the `values`, of the same shape."""
        g = self.values()
        own = p[:, -g.shape[1] :]
        return own[:, :, None] * (g - np.einsum("ik,ikj->ij", own, g)[:, None])

    def total(self, q: np.ndarray) -> np.ndarray:
        r""":math:`\sum_{ik} q_{ik} g_{ik}`, (J,), or (r, J) for q of shape (r, n, K)."""
        parts, start, one = [], q.shape[:-2], np.ones(len(self.log))
        if self.dense is not None:
            parts.append(q.reshape(*start, -1) @ self._flat.T)
        parts += [one @ (q if f is None else q * f) for f in self.factors]
        if self.top is not None:
            parts.append(self._at_column(q) @ self.top.T)
        if self.confusion:
            parts.append(self._sum_by_column(q).reshape(*start, -1))
        found = np.concatenate(parts, axis=-1)
        return found if self.mix is None else found @ self.mix

    def information(self, p: np.ndarray, weight: np.ndarray) -> np.ndarray:
        r""":math:`\sum_i w_i (\sum_k p_{ik} g_{ik} g_{ik}^\top - m_i m_i^\top)`, (J, J)."""
        if self._binary:
            return self._weighted_squares(weight * p[:, 0] * p[:, 1])
        mean = np.sqrt(weight)[:, None] * p
        found = self._gram(weight[:, None] * p) - self._cross_gram(mean, mean)
        return found if self.mix is None else self.mix.T @ found @ self.mix

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
            parts.append(self._sum_by_column(q).ravel())
        end = self._layout()[2]
        mean = self._project(p)
        if self.mix is None:
            return np.concatenate(parts) - weight @ mean**2
        # What is combined has its value at different classes, so there are no products of these.
        found, free = np.concatenate(parts) @ self.mix**2, p.shape[1] - 1
        cut = self.mix.shape[1] - len(self._constants) * free
        for k, (rows, own) in enumerate(self._constants):
            columns = slice(cut + k * free, cut + (k + 1) * free)
            combined = p[rows] @ self.mix[own, columns]
            found[columns] -= weight[rows] @ combined**2
        found[:cut] -= weight @ (mean @ self.mix[:end, :cut]) ** 2
        return found

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
        rest = self._cross_gram(weight[:, None] * _beyond(p, square), p)
        found = self._gram(weight[:, None] * square) + rest + rest.T
        return found if self.mix is None else self.mix.T @ found @ self.mix

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
        end, size = self._layout()[2:]
        found = np.zeros((size, size))
        found[:end, :end] = first.T @ second
        for rows, own in self._constants:
            found[own, own] = q[rows].T @ r[rows]
            found[own, :end] = q[rows].T @ second[rows]
            found[:end, own] = first[rows].T @ r[rows]
        return found

    def _form(self, q, r, matrix):
        """Products of the projections of q and r with a symmetric matrix before mixing, (n,)."""
        first = self._project(q)
        second = first if r is q else self._project(r)
        end = self._layout()[2]
        found = np.einsum("ij,ij->i", first @ matrix[:end, :end], second)
        for rows, own in self._constants:
            cross = first[rows] @ matrix[:end, own] + q[rows] @ matrix[own, own]
            found[rows] += np.einsum("ik,ik->i", cross, r[rows])
            cross = second[rows] @ matrix[:end, own]
            found[rows] += np.einsum("ik,ik->i", cross, q[rows])
        return found

    def _project(self, q):
        """Projections (n, j) on the directions before mixing, without those of confusion."""
        parts = []
        if self.dense is not None:
            products = (self.dense * q).reshape(-1, q.shape[1])
            parts.append((products @ np.ones(q.shape[1])).reshape(-1, len(q)).T)
        parts += [q if f is None else q * f for f in self.factors]
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
        n_classes, at_column = q.shape[1], self._at_column(q)
        d, start, end, size = self._layout()
        total = np.zeros((size, size))
        own = self._confusion_rows()
        if self.dense is not None:
            weighted, one = self.dense * q, np.ones(len(q))
            total[:d, :d] = weighted.reshape(d, -1) @ self._flat.T
            if self.top is not None:
                total[:d, start:end] = (self._dense_at_column * at_column) @ self.top.T
            if self.confusion:
                sums = np.stack([self._sum_by_column(row) for row in weighted])
                total[:d, end:] = sums.reshape(d, -1)
            for j, factor in enumerate(self.factors):
                rows = slice(d + j * n_classes, d + (j + 1) * n_classes)
                total[:d, rows] = one @ (weighted if factor is None else weighted * factor)
        for j, one in enumerate(self.factors):
            first = q if one is None else q * one
            rows = d + j * n_classes + np.arange(n_classes)
            for i, other in enumerate(self.factors[j:], start=j):
                columns = d + i * n_classes + np.arange(n_classes)
                total[rows, columns] = (first if other is None else first * other).sum(axis=0)
            if self.top is not None:
                weighted = self._at_column(first) * self.top
                total[rows, start:end] = self._sum_by_column(weighted.T)
            if self.confusion:
                total[rows, own] = self._sum_by_column(first)
        if self.top is not None:
            total[start:end, start:end] = self._weighted_squares(at_column)
            if self.confusion:
                sums = self._sum_by_column((self.top * at_column).T)
                total[start:end, np.diag(own)] = sums.T
        if self.confusion:
            total[own, own] = self._sum_by_column(q)
        upper = np.triu(total)
        return upper + np.triu(upper, 1).T

    def _layout(self):
        """Ends of the dense directions, of the factors, of those of the column, and of all."""
        n_classes = self.log.shape[1]
        d = 0 if self.dense is None else len(self.dense)
        t = 0 if self.top is None else len(self.top)
        start = d + n_classes * len(self.factors)
        return d, start, start + t, start + t + n_classes**2 * self.confusion

    def _confusion_rows(self):
        """Numbers (K, K) of the constants by column and class, before mixing; (0, K) without."""
        end, size = self._layout()[2:]
        return end + np.arange(size - end).reshape(-1, self.log.shape[1])

    def _quadratic(self, q, matrix):
        """Sum of q g' P g over classes, (n,), with a symmetric P of directions before mixing."""
        n_classes = q.shape[1]
        d, start, end, _ = self._layout()
        blocks = [d + j * n_classes + np.arange(n_classes) for j in range(len(self.factors))]
        own = self._confusion_rows()
        each = np.zeros_like(q)
        if self.dense is not None:
            each += _column_squares(self._flat, matrix[:d, :d]).reshape(each.shape)
            if self.confusion:
                each += 2 * (self.dense * matrix[:d, own][:, self.column]).sum(axis=0)
        for j, one in enumerate(self.factors):
            part = np.zeros_like(q)
            if self.dense is not None:
                part += 2 * np.einsum("dik,dk->ik", self.dense, matrix[:d, blocks[j]])
            part += matrix[blocks[j], blocks[j]] * (1.0 if one is None else one)
            for i in range(j + 1, len(self.factors)):
                other = self.factors[i]
                part += 2 * matrix[blocks[j], blocks[i]] * (1.0 if other is None else other)
            if self.confusion:
                part += 2 * matrix[blocks[j], own][self.column]
            each += part if one is None else part * one
        if self.confusion:
            each += matrix[own, own][self.column]
        found = np.einsum("ik,ik->i", q, each)
        if self.top is not None:
            along = self.top.T @ matrix[start:end, start:end]
            if self.dense is not None:
                along += 2 * self._dense_at_column.T @ matrix[:d, start:end]
            for j, one in enumerate(self.factors):
                row = 2 * matrix[blocks[j], start:end][self.column]
                along += row if one is None else row * self._at_column(one)[:, None]
            if self.confusion:
                along += 2 * matrix[np.diag(own), start:end][self.column]
            found += self._at_column(q) * np.einsum("ij,ji->i", along, self.top)
        return found

    @property
    def _flat(self):
        """The dense directions as rows (d, n K)."""
        return self.dense.reshape(len(self.dense), -1)

    @property
    def _dense_at_column(self):
        """The dense directions (d, n) at the column of each sample."""
        return self.dense[:, np.arange(len(self.column)), self.column]

    def _at_column(self, values):
        if self._binary:
            return values[..., 1]
        return values[..., np.arange(len(self.log)), self.column]

    def _sum_by_column(self, values):
        """Sums (K, t) of the rows of values (n, t) with the same column."""
        return self._columns @ values

    @cached_property
    def _constants(self):
        """The samples of each column, and the place of its constants before mixing."""
        return [
            (np.flatnonzero(self.column == k), slice(own[0], own[-1] + 1))
            for k, own in enumerate(self._confusion_rows())
        ]

    @cached_property
    def _columns(self):
        """Indicators (K, n) of the column of each sample."""
        n_samples, n_classes = self.log.shape
        if n_classes <= FEW_CLASSES:  # making a sparse array takes longer than the products
            return (self.column == np.arange(n_classes)[:, None]).astype(np.float64)
        parts = (np.ones(n_samples), self.column, np.arange(n_samples + 1))
        return csr_array(parts, shape=(n_samples, n_classes)).T


def _beyond(p, square):
    """p s / 2 - p^2 with the sum s of the squares of each row, (n, K)."""
    return 0.5 * square.sum(axis=1, keepdims=True) * p - square


def _column_squares(columns, matrix):
    """x' P x of each column x, (n,), with a symmetric P."""
    return np.einsum("ji,ji->i", matrix @ columns, columns)
