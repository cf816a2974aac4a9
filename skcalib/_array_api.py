"""Arrays of other libraries at the door: PyTorch, and all that export their memory as DLPack.

The library computes in NumPy. What lies in the memory of the CPU is read where it is, without a
copy; what does not is refused, because a transfer from a device is for its owner to decide.
"""

import numpy as np


def to_numpy(values, *, name):
    """An array of another library on the CPU -> NumPy array; all other values pass as they are.

    A tensor that requires gradients is detached: results are numbers and NumPy arrays, which
    nobody can differentiate by mistake.
    """
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    owned = values.detach() if getattr(values, "requires_grad", False) is True else values
    try:
        array = np.asarray(owned)
        # Without a protocol that numpy.asarray knows, the whole array became one object.
        return np.from_dlpack(owned) if array.ndim == 0 and array.dtype == object else array
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{type(values).__module__}.{type(values).__qualname__}"
        about = ", ".join(str(getattr(values, key, "?")) for key in ("dtype", "device"))
        raise ValueError(
            f"{name} is a {kind} ({about}) that NumPy cannot read: copy it to the CPU, for example "
            f"by {name}.cpu(), and turn bfloat16 into float32 before the softmax."
        ) from error
