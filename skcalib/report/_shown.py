"""How a report is shown: as text, as a page, in a notebook."""

from pathlib import Path

from skcalib.report.html import render_body, render_page
from skcalib.report.text import render_text


class Shown:
    """Text, page and fragment of what `_document` holds."""

    def _document(self):
        raise NotImplementedError

    def __str__(self):
        return render_text(self._document())

    def _repr_html_(self):
        return render_body(self._document())

    def to_html(self, path):
        """Write one self-contained HTML page, with its figures inside.

        Parameters
        ----------
        path : str or path-like
            File to write.

        Returns
        -------
        pathlib.Path
            The file.
        """
        path = Path(path)
        path.write_text(render_page(self._document()), encoding="utf-8")
        return path
