"""What a word of the vocabulary or a solver must be."""

from mcframe.contracts.errors import *
from mcframe.contracts.likelihood import *
from mcframe.contracts.stored_classes import *
from mcframe.contracts.term import *
