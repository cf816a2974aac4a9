"""Configuration of the documentation.

The build needs no network: no inventories of other projects, no remote fonts, and formulas are
MathML (see _ext/mathml.py).
"""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import skcalib

project = "skcalib"
author = "The skcalib developers"
copyright = "2026, The skcalib developers (BSD-3-Clause)"
version = release = skcalib.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "mathml",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"
# Every reference must lead somewhere, but single backticks also write parameters and foreign names.
nitpicky = True
nitpick_ignore_regex = [("py:obj", r"(?!skcalib\.).*")]

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
# Figures in docstrings: the code above each, which is a doctest, and one image.
plot_include_source = True
plot_html_show_source_link = plot_html_show_formats = False
plot_formats = [("png", 90)]
plot_pre_code = ""
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# What every public function and class says; `numpydoc lint` checks the structure of all docstrings.
numpydoc_validation_checks = {"GL08", "SS01", "SS03", "PR01", "PR02", "RT01", "RT03", "EX01"}
numpydoc_validation_exclude = {
    r"\.[A-Z]\w*\.\w+$",  # methods: short, or explained by their class
    # abstract: examples/extend shows how to derive from them
    r"\.(Notion|Smoother|links\.Link|links\.BinaryMap)$",
    r"skcalib\.recalibration\.(Recalibrator|LogitRecalibrator|BinaryLinkRecalibrator)$",
    # Records: the function or estimator that returns them says what they hold.
    r"\.(ScoreDecomposition|CalibrationImprovement|RecalibratorSelection|RecalibratorMixture)$",
    r"\.(Region|VarianceReliability|ReliabilityBins|BinRows|CumulativeCurve)$",
    r"\.(SupersampleEvaluation|InformationEstimate|CalibrationInterceptSlope)$",
    r"\.(CalibrationComparison|CalibrationTest|CurveEqualityTest)$",
    r"\.(OmnibusTest|CalibrationComponent)$",
    r"\.Window(Comparison|Difference)$",
    r"\.(ErrorInterval|Predictions)$",
    r"\.(CorpBand|CorpCurve|CorpDecomposition|CalibrationSummary|DecisionRegret)$",
    r"\.SoftLabelDecomposition$",
    r"skcalib\.grouping\.(GroupCalibrations?|GroupComparison|GroupDifference)$",
    r"skcalib\.grouping\.GroupingImprovement$",
    r"skcalib\.monitoring\.(Alarm|Evidence|ExpectedPerformance|Window)$",
}

html_theme = "pydata_sphinx_theme"
html_title = f"skcalib {version}"
html_static_path = ["_static"]
html_css_files = ["skcalib.css"]
html_extra_path = ["llms.txt"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {
    "index": [],
    "design": [],
    "whats_new": [],
    "release": [],
}  # pages without pages below them
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "write_computation_times": False,  # that page loads scripts from the network
    "abort_on_example_error": True,
    "reference_url": {"skcalib": None},
    "doc_module": ("skcalib",),
    "backreferences_dir": None,
    "show_signature": False,
    "nested_sections": False,
    "subsection_order": [
        f"../examples/{name}"
        for name in (
            "check",
            "groups",
            "recalibrate",
            "choose",
            "decide",
            "monitor",
            "accuracy",
            "papers",
        )
    ]
    + ["*"],  # folders without a header are not galleries
    "parallel": 2,
}


def changelog(app, docname, source):
    """Page `whats_new`: CHANGELOG.md, whose Markdown is headings, lists, tables and backticks."""
    if docname != "whats_new":
        return
    lines = [".. _whats_new:", "", ".. currentmodule:: skcalib", ""]
    for line in (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8").splitlines():
        marks, _, title = line.partition(" ")
        if marks in ("#", "##", "###"):
            lines += [title, {"#": "=", "##": "-", "###": "~"}[marks] * len(title)]
        elif line.startswith("|--"):
            pass
        elif line.startswith("|"):
            if not lines[-1].startswith("     - "):
                lines += [".. list-table::", "   :header-rows: 1", ""]
            first, *others = (cell.strip() for cell in line.strip("|").split(" | "))
            lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
        else:
            lines.append(line)
    source[0] = "\n".join(lines)


def escape_fitted_attributes(app, what, name, obj, options, lines):
    """``n_cells_`` in a docstring is an attribute, not a reference to a target `n_cells`."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            plain = re.split(r"(`[^`]*`)", line)
            plain[::2] = [re.sub(r"(?<=\w)_(?=[,) ])", r"\\_", part) for part in plain[::2]]
            lines[i] = "".join(plain)


def setup(app):
    # after numpydoc, which has priority 500
    app.connect("autodoc-process-docstring", escape_fitted_attributes, priority=600)
    app.connect("source-read", changelog)
