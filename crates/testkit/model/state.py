"""What sites exchange: the state of rows, and its join.

A stamp is (clock value, name of the site); stamps compare as such pairs.
"""

from dataclasses import dataclass

NEVER = (0, "")


@dataclass(frozen=True)
class Register:
    """The latest write of a group of columns."""

    stamp: tuple
    # By column.
    values: dict
    # By foreign key: the identity of the row that is meant, or None.
    refs: dict
    # What values and references were shown before the write; None of an insert.
    previous: tuple = None
    # Written by R-PIN, not by a user.
    pinned: bool = False


class Row:
    """State of a row: a header and a register for each group."""

    def __init__(self, rid):
        self.rid, self.table = rid, rid[1]
        self.length = 0
        # When the length was set, or CASCADE deleted the row since, which leaves the length odd.
        self.left = NEVER
        self.inserted = self.deleted = self.reinserted = self.yielded = NEVER
        self.registers = {}

    def copy(self):
        row = Row(self.rid)
        row.__dict__.update(self.__dict__, registers=dict(self.registers))
        return row

    def alive(self):
        """R-EXIST."""
        return self.length % 2 == 1 or self.inserted > self.deleted

    def insert(self, stamp):
        self.length += 2 if self.length % 2 else 1
        self.left = self.inserted = stamp

    def delete(self, stamp):
        self.length += 1 if self.length % 2 else 2
        self.left = self.deleted = stamp

    def revive(self, stamp):
        self.length += 1
        self.left = stamp

    def fall(self, stamp):
        """CASCADE deleted the row with its parent."""
        self.left = max(self.left, stamp)
        if self.inserted <= self.deleted:
            self.deleted = max(self.deleted, stamp)

    def fell(self):
        """Whether whoever deleted the row with its parent had seen all there is to it."""
        by_count = self.length % 2 == 1 and self.left == self.deleted
        fell = self.left > self.inserted and (self.inserted > self.deleted or by_count)
        stamps = [register.stamp for register in self.registers.values()] + [self.inserted]
        return fell and max(stamps) <= self.left

    def write(self, group, *register, **more):
        self.registers[group] = Register(*register, **more)


def join_rows(one, other):
    """R-JOIN of two states of a row; R-LWW of its registers."""
    row = one.copy()
    row.length, row.left = max((one.length, one.left), (other.length, other.left))
    for field in ("inserted", "deleted", "reinserted", "yielded"):
        setattr(row, field, max(getattr(one, field), getattr(other, field)))
    for group, register in other.registers.items():
        if group not in row.registers or register.stamp > row.registers[group].stamp:
            row.registers[group] = register
    return row


def join(one, other):
    """R-JOIN of two states of a database: rows by identity."""
    state = dict(one)
    for rid, row in other.items():
        state[rid] = join_rows(state[rid], row) if rid in state else row.copy()
    return state
