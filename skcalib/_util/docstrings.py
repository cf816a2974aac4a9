"""Docstrings that leave out what others state: sections, and entries of parameters by their names.

A class need not repeat what is the same in its base class: `complete_class` adds it.
"""

import re
from inspect import cleandoc, getdoc, isfunction, signature

_SECTION = re.compile(r"^(?=\w[\w ]*\n-+$)", re.M)
_ENTRY = re.compile(r"^(?=\S)", re.M)
_FIRST = ("", "Parameters", "Attributes", "Returns", "Raises")  # the order; others come later


def sections_of(text):
    """The sections of a docstring by their titles; "" is the title of what precedes them.

    There are none without a docstring: `python -OO` removes all of them.
    """
    if text is None:
        return {}
    first, *others = _SECTION.split(cleandoc(text))
    parts = (part.split("\n", 2) for part in others)
    return {"": first.strip("\n")} | {title: body.strip("\n") for title, _, body in parts}


def docstring_of(sections):
    """The docstring of sections, in the order of numpydoc; None without a summary."""
    if "" not in sections:
        return None
    places = {title: place for place, title in enumerate(_FIRST)}
    titles = sorted(sections, key=lambda title: places.get(title, len(places)))
    marked = (f"{title}\n{'-' * len(title)}\n" if title else "" for title in titles)
    parts = zip(marked, titles, strict=True)
    return "\n\n".join(f"{mark}{sections[title]}" for mark, title in parts) + "\n"


def entries_of(section):
    """The entries of a section: their names, of which several may share one, and the text."""
    entries = [entry.rstrip("\n") for entry in _ENTRY.split(section) if entry.strip()]
    return [(re.split(r" :|\n", entry, maxsplit=1)[0].split(", "), entry) for entry in entries]


def by_name(section):
    """The entries of a section by their first names."""
    return {names[0]: entry for names, entry in entries_of(section)}


def add_entries(sections, title, known, names):
    """Add the entries of `names` that a section lacks, if they are known by their first name."""
    listed, place = entries_of(sections.get(title, "")), 0
    for name in names:
        here = [k for k, (entry_names, _) in enumerate(listed) if name in entry_names]
        if not here and name in known:
            listed.insert(place, *entries_of(known[name]))
            here = [place]
        place = here[0] + 1 if here else place
    if listed:
        sections[title] = "\n".join(entry for _, entry in listed)


def add_parameters(function, sections, known):
    """Add the entries of parameters of a function or class that it lacks, and that are known.

    Their defaults are those of the function.
    """
    names, entries = [], {}
    for name, parameter in signature(function).parameters.items():
        name = f"**{name}" if parameter.kind is parameter.VAR_KEYWORD else name
        names.append(name)
        if name in known:
            default = (
                f'"{parameter.default}"'
                if isinstance(parameter.default, str)
                else repr(parameter.default)
            )
            entries[name] = re.sub("(?<=default=).*", default.replace("e-0", "e-"), known[name])
    add_entries(sections, "Parameters", entries, names)


def complete_method(method, inherited, known, result):
    """Add to the docstring of a method the entries and the result that it leaves out.

    They are those of the method of the base class, and `known` ones. A method that is annotated
    with `Self` and has no such section has this `result`.
    """
    sections, of_base = sections_of(method.__doc__), sections_of(inherited)
    add_parameters(method, sections, known | by_name(of_base.get("Parameters", "")))
    if "Returns" in of_base:
        sections.setdefault("Returns", of_base["Returns"])
    if method.__annotations__.get("return") == "Self":
        sections.setdefault("Returns", result)
    method.__doc__ = docstring_of(sections)


#: Method -> the one whose parameters it has.
_LIKE = {"predict": "predict_proba", "transform": "predict_proba", "fit_transform": "fit"}


def complete_class(cls, known):
    """Add to the docstrings of a class and its public methods what they leave out; returns it.

    Entries are those of the base classes, of `predict_proba` for `predict` and `transform`, of
    `fit` for `fit_transform`, of the class itself for constructors, and `known` ones. Attributes of
    base classes follow those of the class. A constructor returns a new object, and other methods
    that are annotated with `Self` the object itself.
    """
    sections = sections_of(cls.__doc__)
    parameters = by_name(sections.get("Parameters", ""))
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if isfunction(function) and function.__doc__ and not name.startswith("_"):
            base = getattr(super(cls, cls), name, None)
            like = getattr(cls, _LIKE.get(name, ""), None)
            base = like if base is None or name == "fit_transform" else base
            inherited = getdoc(base) if base else None
            constructs = isinstance(method, classmethod)
            result = "A new object." if constructs else "The object itself."
            entries = known | parameters if constructs else known
            entries = entries | by_name(sections_of(getdoc(like)).get("Parameters", ""))
            complete_method(function, inherited, entries, f"{cls.__name__}\n    {result}")
    if sections:
        cls._entries, cls._attributes = parameters, by_name(sections.get("Attributes", ""))
        attributes = {}
        for base in reversed(cls.__mro__):
            known = known | vars(base).get("_entries", {})
            attributes |= vars(base).get("_attributes", {})
        add_parameters(cls, sections, known)
        order = (name for base in cls.__mro__ for name in vars(base).get("_attributes", ()))
        add_entries(sections, "Attributes", attributes, order)
        cls.__doc__ = docstring_of(sections)
    return cls
