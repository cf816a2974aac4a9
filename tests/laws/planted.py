"""Classes with a defect, which a checker of laws has to find."""

from itertools import count

_NUMBERS = count()


def planted(base, **members):
    """A subclass with other members; pickle finds it by its name in this module."""
    name = f"{base.__name__}{next(_NUMBERS)}"
    globals()[name] = type(base)(name, (base,), {"__module__": __name__, **members})
    return globals()[name]


def altered(base, **changes):
    """A subclass of which the results of some methods go through a function."""

    def through(method, change):
        return lambda self, *arguments, **named: change(method(self, *arguments, **named))

    return planted(
        base, **{name: through(getattr(base, name), change) for name, change in changes.items()}
    )
