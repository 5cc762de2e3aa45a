"""One declarative model of an incomplete table, answers with a certificate.

A ``Model`` has one ``Block`` or more, each with a likelihood or a risk, and terms: regularizers,
constraints, or known ``sums``, which are either. The packages
``mcframe.likelihoods``, ``risks``, ``regularizers``, ``constraints`` and ``sums`` name their words
in ``__all__``, and all of them are here: ``mc.Gaussian``, ``mc.NuclearNorm``.

Verbs: ``fit``, ``posterior``, ``path``, ``cross_validate``, ``weight_max``, ``verify``,
``explain``, ``to_cvxpy``; of tables ``declare`` and ``complete``; ``load`` of what an answer's
``save`` has written. See the README for an example.

The packages ``mcframe.datasets``, ``mcframe.estimators`` (for scikit-learn), ``mcframe.papers``,
``mcframe.plots``, ``mcframe.selection`` (criteria and folds of ``cross_validate``) and
``mcframe.backends`` are loaded where they are first asked for: ``mc.datasets.on_disk(folder)``.
"""

# Ctrl-C from here on; before all that takes long
from mcframe import interrupts as interrupts

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

# The sentence
from mcframe.model import (
    Block,
    Model,
    Observations,
    Problem,
    Triples,
    estimate_propensities,
    from_triples,
)

# Its words: all names of their packages, so that a new one is named in its package alone
from mcframe import constraints, likelihoods, regularizers, risks, sums
from mcframe.likelihoods import *
from mcframe.risks import *
from mcframe.regularizers import *
from mcframe.constraints import *
from mcframe.sums import *

# Backends, as options objects
from mcframe.backends import (
    FPC,
    Alternating,
    FactoredDescent,
    History,
    Proximal,
    Record,
    Reference,
    Rowwise,
    Splitting,
)

# Verbs and their answers, but for those that are loaded where they are first asked for
from mcframe.fitting.fit_answer import Fit
from mcframe.fitting.fit import fit
from mcframe.fitting.verification import Explanation, Verification, explain, to_cvxpy, verify

# Rows that are not all in one process: they register what verbs ask of them
from mcframe import partitions as partitions

from mcframe.contracts.pictures import drawn_by as _drawn_by
from mcframe.contracts.validators import suggest_options as _suggest_options

# What is raised and warned
from mcframe.contracts import (
    BackendError,
    DataError,
    LawViolation,
    McframeError,
    ModelError,
    NotCertifiedWarning,
    NotConvergedWarning,
    UnobservedWarning,
)

__all__ = [
    "FPC",
    "Alternating",
    "BackendError",
    "Block",
    "Comparison",
    "Completion",
    "ConformalPredictions",
    "CrossValidation",
    "DataError",
    "Declared",
    "Explanation",
    "FactoredDescent",
    "Factors",
    "Fit",
    "History",
    "JointPredictions",
    "LawViolation",
    "McframeError",
    "Model",
    "ModelError",
    "NotCertifiedWarning",
    "NotConvergedWarning",
    "Observations",
    "Path",
    "Pooled",
    "Posterior",
    "PosteriorVerification",
    "Problem",
    "Proximal",
    "Record",
    "Reference",
    "Rowwise",
    "Splitting",
    "TippingPoint",
    "Triples",
    "UnobservedWarning",
    "Verification",
    "censored",
    "compare",
    "complete",
    "cross_validate",
    "declare",
    "estimate_propensities",
    "explain",
    "fit",
    "from_triples",
    "laws",
    "load",
    "only_if",
    "path",
    "pool",
    "posterior",
    "relation",
    "shift",
    "tipping_point",
    "to_cvxpy",
    "verify",
    "verify_posterior",
    "weight_max",
]
# As type checkers and editors understand it.
__all__ += likelihoods.__all__
__all__ += risks.__all__
__all__ += regularizers.__all__
__all__ += constraints.__all__
__all__ += sums.__all__

__version__ = "0.2.0"

# Misspelt options are answered by "did you mean"; of answers those of their methods, too.
_suggest_options(*(globals().get(name) for name in __all__))
_suggest_options(Fit, methods=True)

# The package of pictures is loaded where an answer is first asked for one.
_drawn_by("mcframe.plots")

# Packages with names of their own, which are loaded where they are first asked for.
PACKAGES = ("backends", "datasets", "estimators", "laws", "papers", "plots", "selection")

# Its name is a verb's, too. Python sets a package where it is first imported, and not again.
_import_module("mcframe.posterior")

if TYPE_CHECKING:
    from mcframe.loading import load
    from mcframe.posterior.answer import Posterior, posterior
    from mcframe.posterior.conformal import ConformalPredictions
    from mcframe.posterior.conformal_rows import JointPredictions
    from mcframe.posterior.principal_axes import Factors
    from mcframe.posterior.verifying import PosteriorVerification, verify_posterior
    from mcframe.selection import (
        Comparison,
        CrossValidation,
        Path,
        compare,
        cross_validate,
        path,
    )
    from mcframe.selection.weight_max import weight_max
    from mcframe.tables import (
        Completion,
        Declared,
        censored,
        complete,
        declare,
        only_if,
        relation,
        shift,
    )
    from mcframe.tables.pooling import Pooled
    from mcframe.tables.regression import pool
    from mcframe.tables.tipping_points import TippingPoint, tipping_point
    from mcframe import backends as backends
    from mcframe import datasets as datasets
    from mcframe import estimators as estimators
    from mcframe import laws as laws
    from mcframe import papers as papers
    from mcframe import plots as plots
    from mcframe import selection as selection
else:
    # By module, the other names that are loaded where they are first asked for.
    LATER = {
        "loading": ("load",),
        "posterior.answer": ("Posterior", "posterior"),
        "posterior.conformal": ("ConformalPredictions",),
        "posterior.conformal_rows": ("JointPredictions",),
        "posterior.principal_axes": ("Factors",),
        "posterior.verifying": ("PosteriorVerification", "verify_posterior"),
        "selection": (
            *("Comparison", "CrossValidation", "Path"),
            *("compare", "cross_validate", "path", "weight_max"),
        ),
        "tables": (
            *("Completion", "Declared"),
            *("censored", "complete", "declare", "only_if", "relation", "shift"),
        ),
        "tables.pooling": ("Pooled",),
        "tables.regression": ("pool",),
        "tables.tipping_points": ("TippingPoint", "tipping_point"),
    }

    globals().pop("posterior", None)  # the package: from here on the name is the verb's

    def __getattr__(name: str) -> object:
        """Load a package of this one, or a name, where it is first asked for."""
        if name in PACKAGES:
            return _import_module(f"mcframe.{name}")
        for module, names in LATER.items():
            if name in names:
                value = globals()[name] = getattr(_import_module(f"mcframe.{module}"), name)
                return value
        from mcframe.contracts.validators import meant

        hint = "" if name.startswith("_") else f"; {meant(name, __dir__(), 'names')}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """Show the public names and packages, and none of the modules that define them."""
    return sorted({*__all__, *PACKAGES})
