"""Finds the places of a C++ file where a mutant is possible, and writes copies of the file with selectable mutants."""

import re
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import CursorKind, Diagnostic, Index, TranslationUnit, TypeKind

EXCHANGED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=",
}
DECLARATION = b'extern "C" bool combu_mutant(int number) noexcept;\n#line 1\n'
ARITHMETIC = {"+", "-", "*", "/", "+=", "-="}
NO_NUMBERS = re.compile(r"basic_string|filesystem::path|basic_json")
FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR,
             CursorKind.CONVERSION_FUNCTION, CursorKind.LAMBDA_EXPR}
LEFT_OUT = {CursorKind.FUNCTION_TEMPLATE, CursorKind.CLASS_TEMPLATE, CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
            CursorKind.STATIC_ASSERT}
BODY_LAST = {CursorKind.FOR_STMT, CursorKind.CXX_FOR_RANGE_STMT, CursorKind.WHILE_STMT, CursorKind.CASE_STMT,
             CursorKind.DEFAULT_STMT}


@dataclass(frozen=True)
class Mutant:
    file: Path
    line: int  # the line of the operator, or else of the mutated code
    last_line: int
    begin: int  # byte offsets of the mutated code: begin and end
    end: int
    kind: str  # exchange, negate or remove
    code: str  # the mutated code in one line
    # Byte offset and text of the exchanged operator.
    operator_begin: int = 0
    operator: str = ""

    @property
    def change(self) -> str:
        return f"`{self.operator}` becomes `{EXCHANGED[self.operator]}`" if self.kind == "exchange" else \
            {"negate": "negated", "remove": "removed"}[self.kind]


def _text_between(text: bytes, begin: int, end: int) -> str:
    between = text[begin:end].decode(errors="replace") if begin <= end else ""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda found: " " * len(found[0]), between, flags=re.DOTALL)


class _Finder:
    """Collects the mutants of the functions of one file in `found`."""

    def __init__(self, file: Path, unit: TranslationUnit):
        self.file = file
        self.text = file.read_bytes()
        self.found: dict[tuple, Mutant] = {}
        self.macros = [
            (it.extent.start.offset, it.extent.end.offset) for it in unit.cursor.get_children()
            if it.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(it)
        ]
        for cursor in unit.cursor.get_children():
            if self.is_here(cursor) and not cursor.kind.is_preprocessing():
                self.visit(cursor, inside=False)

    def is_here(self, cursor) -> bool:
        return cursor.location.file is not None and cursor.location.file.name == str(self.file)

    def add(self, cursor, kind: str, operator_begin: int = 0, operator: str = "") -> None:
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        if begin >= end or any(begin < last and first < end for first, last in self.macros):
            return
        line = self.text.count(b"\n", 0, operator_begin or begin) + 1
        last = self.text.count(b"\n", 0, end) + 1
        code = " ".join(self.text[begin:end].decode().split())
        mutant = Mutant(self.file, line, last, begin, end, kind, code, operator_begin, operator)
        self.found.setdefault((begin, end, kind), mutant)

    def visit(self, cursor, inside: bool) -> None:
        kind = cursor.kind
        if kind in LEFT_OUT or self.is_constant(cursor):
            return
        children = list(cursor.get_children())
        if kind in FUNCTIONS:
            inside = True
        if inside:
            self.exchange(cursor, children)
            self.negate(cursor, children)
            self.remove(cursor, children)
        for child in children:
            self.visit(child, inside)

    def is_constant(self, cursor) -> bool:
        """Returns True for a declaration or a statement that the compiler evaluates (constexpr, consteval)."""
        if cursor.kind == CursorKind.IF_STMT:
            return False
        if not cursor.kind.is_declaration() and cursor.kind not in (CursorKind.DECL_STMT, CursorKind.LAMBDA_EXPR):
            return False
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        head = re.split(r"[{=]", _text_between(self.text, begin, end), maxsplit=1)[0]
        return re.search(r"\b(constexpr|consteval)\b", head) is not None

    def exchange(self, cursor, children) -> None:
        if cursor.kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR):
            operands = children
        elif cursor.kind == CursorKind.CALL_EXPR and re.match(r"operator\W", cursor.spelling):
            operands = [it for it in cursor.get_arguments() if it is not None]
        else:
            return
        if len(operands) != 2:
            return
        first, second = sorted(operands, key=lambda it: it.extent.start.offset)
        begin = first.extent.end.offset
        between = _text_between(self.text, begin, second.extent.start.offset)
        found = re.fullmatch(r"\s*([^\s\w]+)\s*", between)
        if found is None or found[1] not in EXCHANGED:
            return
        if found[1] in ARITHMETIC and NO_NUMBERS.search(cursor.type.get_canonical().spelling):
            return
        self.add(cursor, "exchange", begin + found.start(1), found[1])

    def negate(self, cursor, children) -> None:
        kind = cursor.kind
        condition = None
        if kind == CursorKind.IF_STMT:
            condition = self.condition_of_if(cursor, children)
        elif kind == CursorKind.WHILE_STMT:
            condition = children[-2] if len(children) == 2 else None
        elif kind == CursorKind.DO_STMT:
            condition = children[-1]
        elif kind == CursorKind.FOR_STMT:
            condition = next((it for it in children[:-1] if it.type.get_canonical().kind == TypeKind.BOOL), None)
        elif kind == CursorKind.CONDITIONAL_OPERATOR:
            condition = children[0]
        elif kind == CursorKind.RETURN_STMT and children:
            is_literal = self.peel(children[0]).kind == CursorKind.CXX_BOOL_LITERAL_EXPR
            if children[0].type.get_canonical().kind == TypeKind.BOOL and not is_literal:
                condition = children[0]
        # If the condition is a comparison with == or !=, exchanging the operator is the same mutant.
        if condition is not None and condition.kind.is_expression() and not self.compares_for_equality(condition):
            self.add(condition, "negate")

    def compares_for_equality(self, cursor) -> bool:
        cursor = self.peel(cursor)
        self.exchange(cursor, list(cursor.get_children()))
        extent = (cursor.extent.start.offset, cursor.extent.end.offset, "exchange")
        return extent in self.found and self.found[extent].operator in ("==", "!=")

    def condition_of_if(self, cursor, children):
        begin = cursor.extent.start.offset
        if re.match(rb"if\s+constexpr\b", self.text[begin:begin + 40]):
            return None
        # `if (auto x = f())` has no expression to negate. `if (auto x = f(); x)` has an expression and no VAR_DECL among
        # its children.
        declared = [it for it in children if it.kind == CursorKind.VAR_DECL]
        if declared:
            return None
        return next((it for it in children if it.kind.is_expression()), None)

    def peel(self, cursor):
        while cursor.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.CSTYLE_CAST_EXPR):
            inner = [it for it in cursor.get_children() if it.kind.is_expression()]
            if len(inner) != 1:
                break
            cursor = inner[0]
        return cursor

    def remove(self, cursor, children) -> None:
        if cursor.kind == CursorKind.COMPOUND_STMT:
            statements = children
        elif cursor.kind == CursorKind.IF_STMT:
            condition = next((at for at, it in enumerate(children) if it.kind.is_expression()), len(children))
            statements = children[condition + 1:]
        elif cursor.kind in BODY_LAST:
            statements = children[-1:]
        elif cursor.kind == CursorKind.DO_STMT:
            statements = children[:1]
        else:
            return
        for statement in statements:
            inner = self.peel(statement)
            if inner.spelling == "reserve":  # no caller can see the capacity
                continue
            if inner.kind in (CursorKind.CALL_EXPR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR) or self.is_assignment(inner):
                self.add(statement, "remove")

    def is_assignment(self, cursor) -> bool:
        text = self.text[cursor.extent.start.offset:cursor.extent.end.offset]
        if cursor.kind == CursorKind.UNARY_OPERATOR:
            return text.startswith((b"++", b"--")) or text.endswith((b"++", b"--"))
        return cursor.kind == CursorKind.BINARY_OPERATOR


def find(file: Path, options: list[str]) -> list[Mutant]:
    """Returns all mutants of the file in the order of its text. The options are the compiler options -I, -D and -std.

    Raises RuntimeError if clang reports an error.
    """
    unit = Index.create().parse(str(file), args=options, options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    errors = [str(it) for it in unit.diagnostics if it.severity >= Diagnostic.Error]
    if errors:
        raise RuntimeError(f"{file}: clang cannot read it: {errors[0]}")
    found = _Finder(file, unit).found.values()
    return sorted(found, key=lambda it: (it.begin, -it.end, it.kind))


def write(text: bytes, mutants: dict[int, Mutant]) -> bytes:
    """Returns the text with all given mutants; combu_mutant(NUMBER) selects one at run time. Line numbers do not change."""
    order = {"remove": 0, "negate": 1, "exchange": 2}
    pending = sorted(mutants.items(), key=lambda it: (it[1].begin, -it[1].end, order[it[1].kind]))

    def between(begin: int, end: int, inside: list) -> bytes:
        out, at, rest = b"", begin, inside
        while rest:
            number, mutant = rest[0]
            nested = [it for it in rest[1:] if it[1].end <= mutant.end]
            out += text[at:mutant.begin] + mutated(number, mutant, nested)
            at = mutant.end
            rest = rest[1 + len(nested):]
        return out + text[at:end]

    def mutated(number: int, mutant: Mutant, nested: list) -> bytes:
        chosen = f"::combu_mutant({number})".encode()
        if mutant.kind == "remove":
            return b"(" + chosen + b" ? void() : static_cast<void>(" + between(mutant.begin, mutant.end, nested) + b"))"
        if mutant.kind == "negate":
            return b"(" + chosen + b" != static_cast<bool>(" + between(mutant.begin, mutant.end, nested) + b"))"
        at = mutant.operator_begin
        before = between(mutant.begin, at, [it for it in nested if it[1].end <= at])
        after = between(at + len(mutant.operator), mutant.end, [it for it in nested if it[1].begin > at])
        own, other = mutant.operator.encode(), EXCHANGED[mutant.operator].encode()
        if mutant.operator in ("&&", "||"):  # by De Morgan's laws, without repeating operands: chains may be long
            return b"(((" + chosen + b" != static_cast<bool>(" + before + b")) " + own + b" (" + chosen + \
                b" != static_cast<bool>(" + after + b"))) != " + chosen + b")"
        if mutant.operator in ("==", "!="):
            return b"((" + before + own + after + b") != " + chosen + b")"
        exchanged = before + other + after
        if b"//" not in exchanged:  # keeps the line numbers
            exchanged = b" ".join(exchanged.split(b"\n"))
        return b"(" + chosen + b" ? (" + exchanged + b") : (" + before + own + after + b"))"

    return DECLARATION + between(0, len(text), pending)
