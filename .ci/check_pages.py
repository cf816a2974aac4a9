"""The built documentation loads nothing from the network, and knows every public name.

python .ci/check_pages.py doc/_build/html
"""

import re
import sys
from pathlib import Path

from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[1]


def faults(pages):
    """Sentences on what is wrong with the pages in a folder."""
    for name in ("index.html", "auto_examples/index.html"):
        if not (pages / name).exists():
            yield f"{name} was not built"
    for page in sorted(pages.rglob("*.html")):
        loaded = re.search(
            r'<(script|link|img)[^>]*(src|href)="(https?:)?//[^"]*', page.read_text("utf-8")
        )
        if loaded:
            yield f"{page} loads something from the network: {loaded[0]}"
    inventory = InventoryFile.loads((pages / "objects.inv").read_bytes(), uri="").data
    known = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    text = (ROOT / "doc/api.rst").read_text("utf-8")
    listed = re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)
    if len(listed) < 100:
        yield f"only {len(listed)} names were read from doc/api.rst"
    for name in listed:
        if f"skcalib.{name}" not in known:
            yield f"{name} of doc/api.rst is not in objects.inv"


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(sys.argv[1]))) or 0)
