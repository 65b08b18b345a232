"""Counts the data members of classes in C++ source text without a compiler. The text must be formatted by clang-format.

clang-format puts a space before an operator, so a `<` that directly follows a word opens template arguments.
"""

import re

TOKEN = re.compile(
    r"""(?P<left_out> //[^\n]* | /\*.*?\*/ | \#(?:[^\n]*\\\n)*[^\n]* | \s+)
      | (?P<literal> (?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)" | (?:u8|[uUL])?"(?:\\.|[^"\\])*"
          | (?:u8|[uUL])?'(?:\\.|[^'\\])+' | \d(?:'?[\w.])*)
      | \w+ | :: | -> | .""",
    re.VERBOSE | re.DOTALL)
OPENS_ARGUMENTS = "<("
OPENS = ("(", "[", "{", OPENS_ARGUMENTS)
CLASS = ("class", "struct", "union")
NO_DATA_MEMBER = ("using", "typedef", "friend", "static", "inline", "constexpr", "extern")


def tokens_of(text):
    """Returns the tokens without comments, spaces and preprocessor lines. Each literal becomes "0"."""
    tokens, end = [], 0
    for match in TOKEN.finditer(text):
        if match["left_out"]:
            continue
        token, last = "0" if match["literal"] else match[0], tokens[-1] if tokens else ""
        follows = end == match.start() and is_word(last) and last != "operator"
        tokens.append(OPENS_ARGUMENTS if token == "<" and (follows or last == "template") else token)
        end = match.end()
    return tokens


def is_word(token):
    return re.match(r"[A-Za-z_]", token) is not None


def behind(tokens, at):
    """Returns the index after the token at `at`, or after the closing bracket if that token is an opening bracket."""
    opened = []
    while True:
        token = tokens[at]
        if token in OPENS:
            opened.append(token)
        elif token in (")", "]", "}") or (token == ">" and opened[-1:] == [OPENS_ARGUMENTS]):
            opened.pop()
        at += 1
        if not opened:
            return at


def place_of(wanted, tokens, at):
    """Returns the index of the first wanted token at or after `at`, outside of brackets."""
    while tokens[at] not in wanted:
        at = behind(tokens, at)
    return at


def class_at(tokens, at):
    """Returns the name of the class whose definition begins at `at`, and the index of its brace; otherwise None."""
    if tokens[at] not in CLASS or tokens[at - 1 : at] == ["enum"]:
        return None
    at, name = at + 1, ""
    while tokens[at] in ("[", "alignas"):
        at = behind(tokens, at + (tokens[at] == "alignas"))
    while tokens[at] in ("::", OPENS_ARGUMENTS) or (is_word(tokens[at]) and (not name or name.endswith("::"))):
        name += "" if tokens[at] == OPENS_ARGUMENTS else tokens[at]
        at = behind(tokens, at)
    at += tokens[at] == "final"
    if tokens[at] == ":":
        at = place_of(("{", ";"), tokens, at)
    return (name, at) if tokens[at] == "{" else None


def declared_at(tokens, at):
    """Returns the number of data members that the declaration at `at` declares, and the index after the declaration."""
    if tokens[at] == "template":
        return 0, declared_at(tokens, behind(tokens, at + 1))[1]
    name, brace = class_at(tokens, at) or ("enum", None)
    if tokens[at] == "enum":
        brace = place_of(("{", ";"), tokens, at)
    elif tokens[at] in CLASS and tokens[at + 2] == ";":
        brace = at + 2
    if brace:
        at = behind(tokens, brace) if tokens[brace] == "{" else brace
        if tokens[at] == ";":  # The members of an unnamed union belong to the enclosing class.
            return 0 if name else members_at(tokens, brace), at + 1
    count, is_data = 1, True
    is_function = is_pointer = has_initializers = False
    while tokens[at] != ";":
        token = tokens[at]
        if token == "operator":
            is_function = True
            at = place_of(("(",), tokens, at + (3 if tokens[at + 1] == "(" else 1))
        elif token in ("alignas", "decltype"):
            at = behind(tokens, at + 1)
        elif token == "=":
            at = place_of((",", ";"), tokens, at)
        else:
            if token == "{" and is_function:
                is_initializer = has_initializers and (is_word(tokens[at - 1]) or tokens[at - 1] == ">")
                if not is_initializer:
                    return 0, behind(tokens, at)
            if token == "(":
                is_pointer |= tokens[at + 1] in ("*", "&")
                is_function |= not is_pointer
            count += token == ","
            is_data &= token not in NO_DATA_MEMBER
            has_initializers |= token == ":"
            at = behind(tokens, at)
    return count if is_data and not is_function else 0, at + 1


def members_at(tokens, brace):
    """Returns the number of data members of the class whose body begins at the index `brace`."""
    at, end, count = brace + 1, behind(tokens, brace) - 1, 0
    while at < end:
        if tokens[at] in ("public", "protected", "private"):
            at += 2
        elif tokens[at] == ";":
            at += 1
        else:
            more, at = declared_at(tokens, at)
            count += more
    return count


def classes(text):
    """Returns [(name, number of data members)] of all named classes in the text, including nested and local classes."""
    tokens = tokens_of(text)
    found, around = [], []
    for at in range(len(tokens)):
        around = [(name, end) for name, end in around if at < end]
        if head := class_at(tokens, at):
            name, brace = head
            around.append((name, behind(tokens, brace)))
            if name:
                found.append(("::".join(one for one, _ in around if one), members_at(tokens, brace)))
    return found
