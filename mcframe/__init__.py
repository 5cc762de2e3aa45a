"""One declarative model of an incomplete table, answers with a certificate.

Words: ``Model``, ``Block``; likelihoods ``Gaussian``, ``Bernoulli``, ``Poisson``, ``Huber``;
regularizers ``NuclearNorm``, ``Ridge``; constraints ``OnesColumn``. Verbs: ``fit``, ``verify``,
``explain``, ``to_cvxpy``. See the README for a first example.
"""

# The sentence
from mcframe.model import Block, Model, Problem

# Likelihoods
from mcframe.likelihoods import Bernoulli, Gaussian, Huber, Poisson

# Regularizers and constraints
from mcframe.regularizers import NuclearNorm, Ridge
from mcframe.constraints import OnesColumn

# Backends, as options objects
from mcframe.backends import FPC, History, Proximal, Record, Reference

# Verbs and their answers
from mcframe.fitting import Fit, fit
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

__all__ = [
    "FPC",
    "BackendError",
    "Bernoulli",
    "Block",
    "DataError",
    "Explanation",
    "Fit",
    "Gaussian",
    "History",
    "Huber",
    "LawViolation",
    "McframeError",
    "Model",
    "ModelError",
    "NotCertifiedWarning",
    "NuclearNorm",
    "OnesColumn",
    "Poisson",
    "Problem",
    "Proximal",
    "Record",
    "Reference",
    "Ridge",
    "UnobservedWarning",
    "Verification",
    "explain",
    "fit",
    "laws",
    "to_cvxpy",
    "verify",
]

__version__ = "0.1.0"
