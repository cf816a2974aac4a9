"""Formulas as MathML, converted when the pages are built.

Browsers render MathML themselves, so a page needs no script and no font from the network. The math
nodes of docutils are handed to latex2mathml. A command that it does not know would be left in its
output as text, so a surviving backslash is an error.
"""

from html import unescape

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError

# latex2mathml would set these letter by letter in an upright maths alphabet, with gaps.
AS_OPERATOR = {r"\mathrm{": r"\operatorname{"}
# Without a mathematical font a caret floats high above its letter; the modifier letter does not.
CARET, HAT = "<mo>&#x0005E;</mo>", '<mo stretchy="false">&#x002C6;</mo>'
# TeX sets thin spaces around a named function.
LOG, THIN = "<mi>log</mi>", '<mspace width="0.17em"/>'


def to_mathml(latex, display):
    """LaTeX source -> one <math> element, or an error that shows the source."""
    source = latex.strip()
    for old, new in AS_OPERATOR.items():
        source = source.replace(old, new)
    if display == "block" and (r"\\" in source or "&" in source) and r"\begin" not in source:
        source = r"\begin{align*}" + source + r"\end{align*}"
    try:
        result = convert(source, display=display)
    except Exception as error:
        raise ExtensionError(f"cannot convert the formula {latex!r}: {error!r}") from error
    if "\\" in unescape(result):
        raise ExtensionError(f"latex2mathml does not know a command of the formula {latex!r}")
    return result.replace(CARET, HAT).replace(LOG, f"{THIN}{LOG}{THIN}")


def visit_inline(translator, node):
    translator.body.append(to_mathml(node.astext(), "inline"))
    raise SkipNode


def visit_block(translator, node):
    translator.body.append(f'<div class="formula">{to_mathml(node.astext(), "block")}</div>\n')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
