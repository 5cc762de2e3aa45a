"""Descent in free vectors: quasi-Newton steps, and factors as functions of such vectors."""
