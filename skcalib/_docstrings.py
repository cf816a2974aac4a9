"""Docstrings that leave out what others state: sections, and entries of parameters by their names.

A class need not repeat what is the same in its base class: `add_entries` and `complete_method` add
it.
"""

import re
from inspect import cleandoc, signature

_SECTION = re.compile(r"^(?=\w[\w ]*\n-+$)", re.M)
_ENTRY = re.compile(r"^(?=\S)", re.M)
_FIRST = ("", "Parameters", "Attributes", "Returns")  # the order of sections; others come later


def sections_of(text):
    """The sections of a docstring by their titles; "" is the title of what precedes them."""
    first, *others = _SECTION.split(cleandoc(text))
    parts = (one.split("\n", 2) for one in others)
    return {"": first.strip("\n")} | {title: body.strip("\n") for title, _, body in parts}


def docstring_of(sections):
    """The docstring of sections, in the order of numpydoc."""
    places = {title: place for place, title in enumerate(_FIRST)}
    titles = sorted(sections, key=lambda title: places.get(title, len(places)))
    marked = (f"{title}\n{'-' * len(title)}\n" if title else "" for title in titles)
    parts = zip(marked, titles, strict=True)
    return "\n\n".join(f"{mark}{sections[title]}" for mark, title in parts) + "\n"


def entries_of(section):
    """The entries of a section: their names, of which several may share one, and the text."""
    found = [one.rstrip("\n") for one in _ENTRY.split(section) if one.strip()]
    return [(re.split(r" :|\n", one, maxsplit=1)[0].split(", "), one) for one in found]


def by_name(section):
    """The entries of a section by their first names."""
    return {names[0]: entry for names, entry in entries_of(section)}


def add_entries(sections, title, known, names):
    """Add the entries of `names` that a section lacks, if they are known by their first name."""
    listed, place = entries_of(sections.get(title, "")), 0
    for name in names:
        here = [k for k, (own, _) in enumerate(listed) if name in own]
        if not here and name in known:
            listed.insert(place, *entries_of(known[name]))
            here = [place]
        place = here[0] + 1 if here else place
    if listed:
        sections[title] = "\n".join(entry for _, entry in listed)


def add_parameters(function, sections, known):
    """Add the entries of parameters of a function that its docstring lacks, and that are known."""
    parameters = signature(function).parameters.items()
    names = [f"**{name}" if one.kind is one.VAR_KEYWORD else name for name, one in parameters]
    add_entries(sections, "Parameters", known, names)


def complete_method(method, inherited):
    """Add to the docstring of a method the entries and the result that it leaves to its base."""
    sections, of_base = sections_of(method.__doc__), sections_of(inherited)
    add_parameters(method, sections, by_name(of_base.get("Parameters", "")))
    if "Returns" in of_base:
        sections.setdefault("Returns", of_base["Returns"])
    method.__doc__ = docstring_of(sections)
