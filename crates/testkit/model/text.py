"""SQL text: names in quotes, parentheses, and which columns a piece of it mentions."""

import re

QUOTES = "'\"`"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def inside(sql, opening):
    """What stands between the parenthesis at `opening` and the one that closes it, and where that is."""
    depth, quote = 0, None
    for at in range(opening, len(sql)):
        char = sql[at]
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES:
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return sql[opening + 1 : at], at
    raise ValueError("a parenthesis is not closed: " + sql)


def parts(list_text):
    """The parts of a list between commas that stand in no parentheses."""
    found, depth, part, quote = [], 0, "", None
    for char in list_text:
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES:
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "," and depth == 0:
            found.append(part.strip())
            part = ""
            continue
        part += char
    return found + [part.strip()]


def mentions(sql, column):
    return re.search(r"(?<!\w)%s(?!\w)" % re.escape(column), sql, re.I) is not None
