"""What sweeps and certificates of rows in partitions cost, as formulas of the table's sizes."""

import attrs

__all__ = ["Costs"]

# Bytes of a number, and the columns of a block of Lanczos steps.
NUMBER, BLOCK = 8, 4


@attrs.frozen
class Costs:
    """Operations, rounds and bytes of ``alternating`` over P partitions: the model of its cost.

    With N entries, n rows, d columns and k columns of the factors:

    - A sweep is two half sweeps. Each begins with a round for new rows of U, or with a round a
      slab of columns for normal equations of V, and goes on with one that asks whether steps
      descend and one for the objective: 6 rounds and ``slabs - 1``. Biases of columns take as
      many rounds as Newton steps in the place of the last, one to four; steps that are not sure
      to descend a line search, one to three.
    - Its arithmetic, N (2 k^2 + 12 k) operations, is that of the partitions; the driver solves d
      systems, d k^3 / 3.
    - Sent: both factors, after each half sweep, since both are balanced anew: 2 k (n + d)
      numbers. Rows of U go to their partition alone, V to each worker, of which one copy is
      counted.
    - Received: new rows of U, n k numbers, and from each partition the lower triangles of the
      normal equations and their right sides, d k (k + 3) / 2.
    - A certificate of L Lanczos steps of 4 columns: L rounds and some 14 others, 16 N operations
      a step, 4 d numbers sent and 4 d received from each partition.

    A second copy of the entries, partitioned by columns as Spark's ALS keeps one, would solve for
    V within its partitions, and have all of U sent to every worker in place of the normal
    equations: W n k numbers with W workers, and the entries stored twice. With a partition a
    worker that is less where ``d (k + 3) / 2 > n``.

    Attributes
    ----------
    n_entries, n_rows, n_columns, width, n_partitions : int
        N, n, d, k and P.
    """

    n_entries: int
    n_rows: int
    n_columns: int
    width: int
    n_partitions: int

    @property
    def sweep_operations(self) -> float:
        """Multiplications and additions of a sweep, over all partitions."""
        return self.n_entries * (2.0 * self.width**2 + 12.0 * self.width)

    @property
    def bytes_of_column(self) -> int:
        """Normal equations of one column from all partitions: what slabs are cut by."""
        triangle = self.width * (self.width + 1) // 2
        return NUMBER * self.n_partitions * (triangle + self.width)

    @property
    def equations(self) -> int:
        """Bytes of normal equations of all columns from all partitions, in a sweep."""
        return self.n_columns * self.bytes_of_column

    @property
    def sweep_sent(self) -> int:
        """Bytes that a sweep sends, each array counted once."""
        return 2 * NUMBER * self.width * (self.n_rows + self.n_columns)

    @property
    def sweep_received(self) -> int:
        """Bytes that a sweep receives."""
        return NUMBER * self.n_rows * self.width + self.equations

    def certificate_operations(self, steps: int) -> float:
        """Multiplications and additions of so many Lanczos steps, over all partitions."""
        return 4.0 * BLOCK * self.n_entries * steps

    def certificate_sent(self, steps: int) -> int:
        """Bytes that so many Lanczos steps send."""
        return NUMBER * BLOCK * self.n_columns * steps

    def certificate_received(self, steps: int) -> int:
        """Bytes that so many Lanczos steps receive."""
        return self.n_partitions * self.certificate_sent(steps)
