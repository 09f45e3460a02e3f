"""When two values are the same value: when SQLite holds them equal."""


def comparable(value, collation="BINARY"):
    """Two values are equal under a collation exactly if this is equal of both."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        if collation == "NOCASE":
            value = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in value)
        elif collation == "RTRIM":
            value = value.rstrip(" ")
    kind = "num" if isinstance(value, (int, float)) else type(value).__name__
    return kind, value


def same(one, other):
    return comparable(one) == comparable(other)


def differ(row, other, columns):
    """The columns among some in which two rows differ."""
    return [c for c in columns if not same(row[c], other[c])]
