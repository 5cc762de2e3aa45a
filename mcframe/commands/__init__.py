"""The commands of ``mcframe`` at a terminal, thin layers over the public verbs."""
