"""Modules with likelihoods, terms and solvers of the user's own, which ``--plugin`` names."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from mcframe.contracts.errors import DataError
from mcframe.contracts.stored_classes import from_outside
from mcframe.storage.serializing import message_of


def import_plugins(names: Sequence[str]) -> None:
    """Import modules, whose classes models and saved files can then name.

    Parameters
    ----------
    names : sequence of str
        Modules, such as ``package.module``, or files, such as ``words.py``. Modules are also
        looked for in the current folder.

    Raises
    ------
    DataError
        Where there is no such module, its import fails, or it declares no class as stored.
    """
    for name in names:
        module = plugin(name)
        kinds = [declaration.kind for declaration in from_outside()]
        if not any(vars(module).get(kind.__name__) is kind for kind in kinds):
            raise DataError(
                f"--plugin {name!r} declares no class that models and files can name; write"
                " @mcframe.contracts.stored above each class, which attrs has to make"
            )


def plugin(name: str) -> ModuleType:
    """The module of a name or of a file, imported."""
    file = Path(name).resolve() if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise DataError(f"--plugin {name!r}: there is no such file")
    # At the end, so that nothing of the same name in that folder stands in for another module.
    folder = str(Path.cwd() if file is None else file.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = import_module(name if file is None else file.stem)
    except ImportError as error:
        raise DataError(f"--plugin {name!r} cannot be imported: {error}") from None
    except Exception as error:  # whatever the module does
        raise DataError(f"--plugin {name!r} cannot be imported: {message_of(error)}") from None
    origin = module.__file__
    if file is not None and (origin is None or Path(origin).resolve() != file):
        raise DataError(
            f"--plugin {name!r}: another module is called {file.stem!r} ({origin or 'built in'});"
            " rename the file"
        )
    return module
