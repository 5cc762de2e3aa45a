"""Which term of a model a path is about."""

import attrs

from mcframe.contracts.errors import ModelError
from mcframe.contracts.term import Norm, Regularizer, Term
from mcframe.model import Model

__all__ = ["chosen_place"]


def chosen_place(model: Model, term: object) -> int:
    """Return the place, among the model's terms, of the one whose weight changes."""
    if not isinstance(model, Model):
        raise ModelError(f"{type(model).__name__} was given where a Model is needed")
    weighted = [k for k, each in enumerate(model.terms) if has_weight(each)]
    if term is None:
        norms = [k for k in weighted if isinstance(model.terms[k], Norm)]
        found = norms or weighted
    elif isinstance(term, type):
        found = [k for k in weighted if isinstance(model.terms[k], term)]
    else:
        found = [k for k in weighted if isinstance(term, Term) and model.terms[k] == term]
    if len(found) == 1:
        return found[0]
    if not weighted:
        words = ", ".join(each.word for each in model.terms)
        raise ModelError(
            f"the model has no term with a weight (its terms are {words}); a path and weight_max"
            " are about the weight of one, such as mc.NuclearNorm or mc.MaxNorm"
        )
    known = ", ".join(str(model.terms[k]) for k in weighted)
    asked = "no term" if term is None else f"term={getattr(term, '__name__', repr(term))}"
    raise ModelError(
        f"{asked} was given, which is {'several' if found else 'none'} of the terms with a weight;"
        f" the model has {known}: name the class of one, or give that term itself"
    )


def has_weight(term: Term) -> bool:
    """Whether a term is declared with a weight."""
    kind: type = type(term)
    declared = attrs.fields_dict(kind) if attrs.has(kind) else {}
    return isinstance(term, Regularizer) and "weight" in declared
