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
        logits, at, n_classes = self.log.copy(), 0, self.log.shape[1]
        if self.dense is not None:
            at = len(self.dense)
            logits += (theta[:at] @ self._flat).reshape(logits.shape)
        for factor in self.factors:
            by_class = theta[at : at + n_classes]
            logits += by_class if factor is None else factor * by_class
            at += n_classes
        if self.top is not None:
            end = at + len(self.top)
            added = theta[at:end] @ self.top
            if self._binary:
                logits[:, 1] += added
            else:
                logits[np.arange(len(logits)), self.column] += added
            at = end
        if self.confusion:
            logits += theta[at:].reshape(n_classes, n_classes)[self.column]
        return logits

    def changes(self, theta: np.ndarray) -> np.ndarray:
        r""":math:`\sum_j \theta_{ij} g_{ikj}` for parameters (n, J) of each sample, (n, K)."""
        theta = theta if self.mix is None else (self.mix @ theta.T).T
        changes, at, n_classes = np.zeros_like(self.log), 0, self.log.shape[1]
        if self.dense is not None:
            at = len(self.dense)
            changes += np.einsum("id,dik->ik", theta[:, :at], self.dense)
        for factor in self.factors:
            by_class = theta[:, at : at + n_classes]
            changes += by_class if factor is None else factor * by_class
            at += n_classes
        if self.top is not None:
            end = at + len(self.top)
            added = np.einsum("it,ti->i", theta[:, at:end], self.top)
            changes[np.arange(len(changes)), 1 if self._binary else self.column] += added
            at = end
        if self.confusion:
            constants = theta[:, at:].reshape(len(changes), n_classes, n_classes)
            changes += constants[np.arange(len(changes)), self.column]
        return changes

    def project(self, q: np.ndarray, matrix: np.ndarray | None = None) -> np.ndarray:
        r""":math:`\sum_k q_{ik} g_{ik}`, (n, J), or its product with a matrix (J, c)."""
        if self.mix is None:
            return self._project(q) if matrix is None else self._project(q) @ matrix
        mixed = self.mix if matrix is None else self.mix @ matrix
        mixed = mixed.toarray() if issparse(mixed) else mixed
        projections = self._project(q) @ mixed[: self._layout()[2]]
        for rows, places in self._constants:
            projections[rows] += q[rows] @ mixed[places]
        return projections

    def values(self) -> np.ndarray:
        """The directions (n, K, J) of the second class of two, (n, 1, J), or of all classes."""
        top: Any = self.top
        if self._binary:
            return top.T[:, None]
        n_samples, n_classes = self.log.shape
        end = self._layout()[2]
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
        parts += [ones @ (q if f is None else q * f) for f in self.factors]
        if self.top is not None:
            parts.append(self._at_column(q) @ self.top.T)
        if self.confusion:
            parts.append(self._sum_by_column(q).reshape(*start, -1))
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
            parts.append(self._sum_by_column(q).ravel())
        end = self._layout()[2]
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
        end, size = self._layout()[2:]
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
        end = self._layout()[2]
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
        constants = self._confusion_rows()
        if self.dense is not None:
            weighted, factor_j = self.dense * q, np.ones(len(q))
            total[:d, :d] = weighted.reshape(d, -1) @ self._flat.T
            if self.top is not None:
                total[:d, start:end] = (self._dense_at_column * at_column) @ self.top.T
            if self.confusion:
                sums = np.stack([self._sum_by_column(row) for row in weighted])
                total[:d, end:] = sums.reshape(d, -1)
            for j, factor in enumerate(self.factors):
                rows = slice(d + j * n_classes, d + (j + 1) * n_classes)
                total[:d, rows] = factor_j @ (weighted if factor is None else weighted * factor)
        for j, factor_j in enumerate(self.factors):
            first = q if factor_j is None else q * factor_j
            rows = d + j * n_classes + np.arange(n_classes)
            for i, factor_i in enumerate(self.factors[j:], start=j):
                columns = d + i * n_classes + np.arange(n_classes)
                total[rows, columns] = (first if factor_i is None else first * factor_i).sum(axis=0)
            if self.top is not None:
                weighted = self._at_column(first) * self.top
                total[rows, start:end] = self._sum_by_column(weighted.T)
            if self.confusion:
                total[rows, constants] = self._sum_by_column(first)
        if self.top is not None:
            total[start:end, start:end] = self._weighted_squares(at_column)
            if self.confusion:
                sums = self._sum_by_column((self.top * at_column).T)
                total[start:end, np.diag(constants)] = sums.T
        if self.confusion:
            total[constants, constants] = self._sum_by_column(q)
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
        constants = self._confusion_rows()
        by_class = np.zeros_like(q)
        if self.dense is not None:
            by_class += _column_squares(self._flat, matrix[:d, :d]).reshape(by_class.shape)
            if self.confusion:
                by_class += 2 * (self.dense * matrix[:d, constants][:, self.column]).sum(axis=0)
        for j, factor in enumerate(self.factors):
            part = np.zeros_like(q)
            if self.dense is not None:
                part += 2 * np.einsum("dik,dk->ik", self.dense, matrix[:d, blocks[j]])
            part += matrix[blocks[j], blocks[j]] * (1.0 if factor is None else factor)
            for i in range(j + 1, len(self.factors)):
                second = self.factors[i]
                part += 2 * matrix[blocks[j], blocks[i]] * (1.0 if second is None else second)
            if self.confusion:
                part += 2 * matrix[blocks[j], constants][self.column]
            by_class += part if factor is None else part * factor
        if self.confusion:
            by_class += matrix[constants, constants][self.column]
        sums = np.einsum("ik,ik->i", q, by_class)
        if self.top is not None:
            along = self.top.T @ matrix[start:end, start:end]
            if self.dense is not None:
                along += 2 * self._dense_at_column.T @ matrix[:d, start:end]
            for j, factor in enumerate(self.factors):
                row = 2 * matrix[blocks[j], start:end][self.column]
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
            (np.flatnonzero(self.column == k), slice(places[0], places[-1] + 1))
            for k, places in enumerate(self._confusion_rows())
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
