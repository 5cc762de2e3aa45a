"""The model of what rows in partitions cost: operations, rounds and bytes."""

import attrs

from mcframe.partitions.part import (
    DRIVER_SUM_BYTES,
    REDUCTION_ARITY,
    bytes_of_equations,
    bytes_to_driver,
)

# Bytes of a number, and the columns of a block of Lanczos steps.
NUMBER, BLOCK = 8, 4


@attrs.frozen
class Costs:
    """Operations, rounds and bytes of ``alternating`` over P partitions: the model of its cost.

    With N entries, n rows, d columns and k columns of the factors:

    - A sweep is two half sweeps: a round for new rows of U, and a round a slab of columns for
      normal equations of V. Whether steps descend is answered in the same rounds, and the
      objective after a half sweep in the next one: 2 rounds and ``slabs - 1``. Biases of columns
      take a round more, a Newton step after both halves, and two to four far from the answer;
      steps of V that are not sure to descend a line search, one to three.
    - Its arithmetic, N (2 k^2 + 12 k) operations, is that of the partitions; the driver solves d
      systems, d k^3 / 3.
    - Sent: V after each half sweep, since both factors are balanced anew: 2 k d numbers. It goes
      to each worker, of which one copy is counted. Rows of U stay with their partitions, where
      they are more than the columns; they are balanced by k x k matrices, which are not counted.
    - Received: products of the columns of U, k^2 numbers (and as many with each other matrix of
      rows that is in use, which are not counted), and the sum of the lower triangles of the normal
      equations and their right sides, d k (k + 3) / 2.
    - With biases of columns 4 d numbers are received in a Newton step, and 2 d in a round that
      asks for sums of gradients: sums over all partitions. With effects of rows as many times n.
    - Unlabeled cells of a squared risk add (n + P d) k^2 operations to an evaluation and to what
      is solved, since each partition multiplies V' V, and a round to each evaluation.
    - A certificate takes some 8 rounds where Gram matrices are written out (d^2 at most 2 N, and
      64 entries a row in the mean): one for each matrix whose norm is bounded, d^2 numbers from
      each partition, one for the leading singular vectors, and up to 8 for scales of its rows and
      columns. Of other tables L Lanczos steps of 4 columns are L rounds, 16 N operations a step,
      4 d numbers sent and 4 d received.
    - Sums are taken on the cluster: a task adds up the answers of its group of neighbours, here of
      one partition, as where there are as many workers, and further tasks
      ``REDUCTION_ARITY`` groups each. An answer goes to one other worker at most, all at once
      but for the ``depth`` of the tree, on each level of which a worker fetches
      ``REDUCTION_ARITY - 1`` in turn. Answers that are ``DRIVER_SUM_BYTES`` all at once come to
      the driver instead, those of all groups.

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
    def equations(self) -> int:
        """Bytes of normal equations of all columns, of one partition or of all."""
        return self.n_columns * bytes_of_equations(self.width)

    @property
    def depth(self) -> int:
        """How often a sum goes to another worker before it is that of all partitions."""
        depth, n_sums = 0, self.n_partitions
        while n_sums > 1:
            depth, n_sums = depth + 1, -(-n_sums // REDUCTION_ARITY)
        return depth

    @property
    def n_additions(self) -> int:
        """The tasks that add up the answers of a round on a cluster."""
        n_tasks, n_sums = 0, self.n_partitions
        while n_sums > 1:
            n_tasks += n_sums // REDUCTION_ARITY + (n_sums % REDUCTION_ARITY > 1)
            n_sums = -(-n_sums // REDUCTION_ARITY)
        return n_tasks

    def on_cluster(self, answer: int) -> bool:
        """Whether answers of so many bytes are added up on the cluster."""
        return self.n_partitions > 1 and self.n_partitions * answer > DRIVER_SUM_BYTES

    def brought(self, answer: int) -> int:
        """The bytes that come to the driver for the sum of answers of so many bytes."""
        return bytes_to_driver(self.n_partitions, answer)

    def passed_on(self, answer: int) -> int:
        """The bytes of sums that one worker after the other has to fetch before there is one."""
        return (REDUCTION_ARITY - 1) * self.depth * answer if self.on_cluster(answer) else 0

    @property
    def sweep_sent(self) -> int:
        """Bytes that a sweep sends, each array counted once."""
        return 2 * NUMBER * self.width * self.n_columns

    @property
    def sweep_received(self) -> int:
        """Bytes that a sweep receives."""
        return self.brought(NUMBER * self.width**2) + self.brought(self.equations)

    def certificate_operations(self, steps: int) -> float:
        """Multiplications and additions of so many Lanczos steps, over all partitions."""
        return 4.0 * BLOCK * self.n_entries * steps

    def certificate_sent(self, steps: int) -> int:
        """Bytes that so many Lanczos steps send."""
        return NUMBER * BLOCK * self.n_columns * steps

    def certificate_received(self, steps: int) -> int:
        """Bytes that so many Lanczos steps receive."""
        return steps * self.brought(self.certificate_sent(1))
