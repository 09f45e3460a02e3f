"""The loop of a site whose program is in Python: takes what `count.py` asks, and answers."""

import json
import sys


def pick(rows, share):
    """The row at a share of the way through `rows`; None of none."""
    return rows[int(share * len(rows))] if rows else None


def serve(create, unit, numbers):
    """`create()` makes the tables; `unit(what, made)` does a unit of work, or rolls it back where a constraint is
    in the way, and says whether it is done; `numbers()` says under which id each row is, by its `uid`."""
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        if what == "create":
            answer = create()
        elif what == "numbers":
            answer = numbers()
        else:
            answer = unit(what, *arguments)
        print(json.dumps(answer), flush=True)
