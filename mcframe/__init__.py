"""One declarative model of an incomplete table, answers with a certificate.

Words: ``Model``, ``Block``; likelihoods ``Gaussian``, ``Bernoulli``, ``Poisson``, ``Huber``,
``NegativeBinomial``, ``Exponential``, ``Gamma``, ``Quantile``, ``Hinge``, ``Equality``,
``Ordinal``, ``Multinomial``;
regularizers ``NuclearNorm``, ``MaxNorm``, ``Ridge``, ``ResidualNuclearNorm``; constraints
``NuclearBall``, ``MaxNormBall``, ``Box``, ``OnesColumn``; ``Calibration``, which is either.
Verbs: ``fit``, ``path``, ``cross_validate``, ``weight_max``, ``verify``, ``explain``,
``to_cvxpy``. See the README for an example.
"""

# The sentence
from mcframe.model import Block, Model, Observations, Problem

# Likelihoods
from mcframe.likelihoods import (
    Bernoulli,
    Equality,
    Exponential,
    Gamma,
    Gaussian,
    Hinge,
    Huber,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
)

# Risks, which stand where a likelihood stands
from mcframe.risks import RiskMixture

# Regularizers and constraints
from mcframe.regularizers import (
    MaxNorm,
    NuclearNorm,
    ResidualNuclearNorm,
    Ridge,
)
from mcframe.constraints import (
    Box,
    MaxNormBall,
    NuclearBall,
    OnesColumn,
)
from mcframe.calibration import Calibration, CalibrationConstraint, CalibrationPenalty

# Backends, as options objects
from mcframe.backends import (
    FPC,
    Alternating,
    FactoredDescent,
    History,
    Proximal,
    Record,
    Reference,
    Splitting,
)

# Verbs and their answers
from mcframe.answer import Fit
from mcframe.fitting import fit
from mcframe.selection import CrossValidation, Path, cross_validate, path, weight_max
from mcframe.verification import Explanation, Verification, explain, to_cvxpy, verify

# The public harness
from mcframe import laws

# What is raised and warned
from mcframe.contracts import (
    BackendError,
    DataError,
    LawViolation,
    McframeError,
    ModelError,
    NotCertifiedWarning,
    UnobservedWarning,
)
from mcframe.contracts.renamed import value_of_old_name

__all__ = [
    "FPC",
    "Alternating",
    "BackendError",
    "Bernoulli",
    "Block",
    "Box",
    "Calibration",
    "CalibrationConstraint",
    "CalibrationPenalty",
    "CrossValidation",
    "DataError",
    "Equality",
    "Explanation",
    "Exponential",
    "FactoredDescent",
    "Fit",
    "Gamma",
    "Gaussian",
    "Hinge",
    "History",
    "Huber",
    "LawViolation",
    "MaxNorm",
    "MaxNormBall",
    "McframeError",
    "Model",
    "ModelError",
    "Multinomial",
    "NegativeBinomial",
    "NotCertifiedWarning",
    "NuclearBall",
    "NuclearNorm",
    "Observations",
    "OnesColumn",
    "Ordinal",
    "Path",
    "Poisson",
    "Problem",
    "Proximal",
    "Quantile",
    "Record",
    "Reference",
    "ResidualNuclearNorm",
    "Ridge",
    "RiskMixture",
    "Splitting",
    "UnobservedWarning",
    "Verification",
    "cross_validate",
    "explain",
    "fit",
    "laws",
    "path",
    "to_cvxpy",
    "verify",
    "weight_max",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    return value_of_old_name(__name__, name, {"Multipliers": ("Splitting", Splitting)})
