"""Accumulation: what can be read off sums, chunk by chunk and part by part."""

from skcalib.streaming.reliability import IncrementalReliability

__all__ = ["IncrementalReliability"]
