"""The language in which documents are chosen by their fields: a part of SQL's expressions, read by a grammar.

    source = 'manual' and (date >= '2020-01-01' or not lang in ('en', 'de')) and author.name like 'A%'

What comes out is a tree of conditions; `storage.where_sql` makes a query of it, and imports this late: reading the
grammar takes a tenth of a second.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from storage.conditions import MAX_FILTER_CHARS, Condition, Connective, Node, Operator, Value
from storage.errors import InvalidOptionError

__all__ = ["parse_where"]

MAX_CONDITIONS = 200
MAX_DEPTH = 20
_WHOLE_DIGITS = 400

_GRAMMAR = r"""
?start: either
either: both ("or"i both)*
both: negated ("and"i negated)*
?negated: NOT negated -> negate
    | test
    | "(" either ")"
?test: name COMPARISON value -> compare
    | name negation "between"i value "and"i value -> between
    | name negation "in"i "(" value ("," value)* ")" -> among
    | name negation "like"i text -> like
    | name "is"i negation "null"i -> is_null
negation: [NOT]
name: (WORD | QUOTED) ("." (WORD | QUOTED))*
?value: text
    | NUMBER -> number
    | "true"i -> true
    | "false"i -> false
text: STRING
NOT: "not"i
COMPARISON: "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
STRING: /'(?:[^']|'')*'/
QUOTED: /"(?:[^"]|"")*"/
NUMBER: /[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:e[+-]?[0-9]+)?(?![\w.])/i
WORD: /[^\W\d]\w*/i
%ignore /\s+/
"""
_IN_WORDS = {
    "WORD": "a field's name",
    "STRING": "a 'text'",
    "NUMBER": "a number",
    "COMPARISON": "=, !=, <, <=, >, >=",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "$END": "the end",
}
_UNSAID = {"DOT", "QUOTED"}  # may follow or stand for a name; naming them helps nobody


def parse_where(text: str) -> Node:
    """Return the tree of a filter.

    Raises:
        InvalidOptionError: It is not of the language; the message says where, and what was wanted there.
    """
    if len(text) > MAX_FILTER_CHARS:
        raise InvalidOptionError(
            f"the filter has {len(text):,} characters, wanted at most {MAX_FILTER_CHARS:,}; shorten it"
        )
    if not text.strip():
        raise InvalidOptionError("the filter is blank; leave it out, or write a condition such as source = 'manual'")
    try:
        text.encode("utf-8")
        node: Node = _parser().parse(text)  # type: ignore[assignment]  # the transformer makes nodes, not lark's trees
    except UnicodeEncodeError as error:
        raise InvalidOptionError(f"the filter holds half a surrogate pair at character {error.start + 1}") from error
    except UnexpectedInput as error:
        raise InvalidOptionError(_explained(text, error)) from error
    return node


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=True, transformer=_Nodes())


class _Nodes(Transformer[Token, Node]):
    """Makes nodes while the parser reads, from the inside out and so without recursion."""

    def either(self, parts: list[Node]) -> Node:
        return _joined("any", parts)

    def both(self, parts: list[Node]) -> Node:
        return _joined("all", parts)

    def negate(self, parts: list[Any]) -> Node:
        return _negated(parts[-1])

    def compare(self, parts: list[Any]) -> Node:
        name, operator, value = parts
        if operator in ("!=", "<>"):
            return _negated(Condition(name, "=", (value,)))
        return Condition(name, operator.value, (value,))

    def between(self, parts: list[Any]) -> Node:
        return _condition("between", *parts)

    def among(self, parts: list[Any]) -> Node:
        return _condition("in", *parts)

    def like(self, parts: list[Any]) -> Node:
        return _condition("like", *parts)

    def is_null(self, parts: list[Any]) -> Node:
        return _condition("null", *parts)

    def negation(self, parts: list[Any]) -> bool:
        return parts[0] is not None

    def name(self, parts: list[Token]) -> str:
        return ".".join(part[1:-1].replace('""', '"') if part.type == "QUOTED" else str(part) for part in parts)

    def text(self, parts: list[Token]) -> Value:
        return parts[0][1:-1].replace("''", "'")

    def number(self, parts: list[Token]) -> Value:
        # Python refuses to read whole numbers of thousands of digits; beyond 64 bits they are inexact anyway.
        whole = parts[0].lstrip("+-").isdigit() and len(parts[0]) < _WHOLE_DIGITS
        return int(parts[0]) if whole else float(parts[0])

    def true(self, _: list[Token]) -> Value:
        return True

    def false(self, _: list[Token]) -> Value:
        return False


def _condition(operator: Operator, name: str, negated: bool, *values: Value) -> Node:
    condition = Condition(name, operator, values)
    return _negated(condition) if negated else condition


def _negated(node: Node) -> Node:
    if isinstance(node, Connective) and node.kind == "not":
        return node.parts[0]
    return _joined("not", [node])


def _joined(kind: Literal["all", "any", "not"], parts: list[Node]) -> Node:
    if len(parts) == 1 and kind != "not":
        return parts[0]
    inner = [part for part in parts if isinstance(part, Connective)]
    depth = 1 + max((part.depth for part in inner), default=0)
    n_conditions = len(parts) - len(inner) + sum(part.n_conditions for part in inner)
    if depth > MAX_DEPTH:
        raise InvalidOptionError(f"the filter is nested more than {MAX_DEPTH} deep; write it with fewer parentheses")
    if n_conditions > MAX_CONDITIONS:
        raise InvalidOptionError(
            f"the filter has more than {MAX_CONDITIONS} conditions; many values of one field go into one: name in (…)"
        )
    return Connective(kind, tuple(parts), depth, n_conditions)


def _explained(text: str, error: UnexpectedInput) -> str:
    """Return what is wrong: the place, what stands there, what was wanted, and the usual slip if it is one."""
    expected: set[str] = set()
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        expected = set(error.allowed or ())
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    place = len(text.rstrip()) if at_end else error.pos_in_stream or 0
    seen = "the filter ends" if at_end else f"there is {text[place : place + 20]!r}"
    words = (_IN_WORDS.get(name, name) for name in expected - _UNSAID)
    wanted = sorted(words, key=lambda word: (word.isupper(), word))
    message = f"the filter cannot be read at character {place + 1}: {seen}, wanted {' or '.join(wanted)}"
    if "STRING" in expected and text[place : place + 1] == '"':
        return f"{message}; texts stand in single quotes, names in double ones"
    if "STRING" in expected and text[place : place + 4].lower() == "null":
        return f"{message}; what is not there is asked for with 'is null'"
    if text[place : place + 1] == "'" and "'" not in text[place + 1 :]:
        return f"{message}; the text that begins there has no closing quote"
    return f"{message}; write conditions such as source = 'manual' and date >= '2020-01-01'"
