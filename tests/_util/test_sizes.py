"""Sizes are set for the length of a block, in all threads."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields

import pytest
from sources import PATHS

from skcalib._util.sizes import SIZES, Sizes, sizes


def test_sizes_are_set_until_the_end_of_the_block():
    """In threads too, in blocks inside of others, and also after an error."""
    pool = ThreadPoolExecutor(1)
    with pytest.raises(ZeroDivisionError), sizes(paired_samples=100, block_entries=1):
        with sizes(paired_samples=7):
            assert pool.submit(lambda: SIZES.paired_samples).result() == 7
        assert (SIZES.paired_samples, SIZES.block_entries) == (100, 1)
        raise ZeroDivisionError
    pool.shutdown()
    assert asdict(SIZES) == asdict(Sizes())


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match="pared_samples"), sizes(pared_samples=100):
        pass
    assert asdict(SIZES) == asdict(Sizes())


def test_every_size_is_read():
    source = " ".join(path.read_text("utf-8") for path in PATHS)
    read = set(re.findall(r"SIZES\.(\w+)", source))
    assert read == {field.name for field in fields(Sizes)}
