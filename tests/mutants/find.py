#!/usr/bin/env python3
"""find.py: the places of a C file where it can be made wrong, from clang's syntax tree (its JSON
dump), and the text of the file with every one of them behind a switch (mutant schemata: Untch,
Offutt, Harrold: Mutation analysis using mutant schemata, 1993).

  negate    a comparison                            a < b         (a < b) ^ switch
  constant  an integer, one more and one less       7             7 + switch, 7 - switch
  refuse    a return of false, of NULL or of an     return false; if (!switch) return false;
            error, and a call that reports one;
            where the function would end without
            a value, false becomes true
  wait      a call that waits, or orders memory     wait(x);      if (!switch) wait(x);
  bound     a relation that guards what is beside   i < n && ...  ((i < n) | switch) && ...
            it, as an operand of && or ||, the
            condition of ?: or of an if
  narrow    a cast to a narrower type, where the    (u32)a > b    a > b
            value can differ without it
  swap      two operands, or two arguments of one   a - b         b - a
            type (of the device library alone)

What no switch can stand in is counted: integers in constant expressions, and what is written in the
body of a macro. The device library is text that the compiler carries, so its mutants are made in
the text instead, in the bodies of macros too, and cost a build each (see Mutant.changed).
"""

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess

SWITCHED = ("negate", "constant", "refuse", "wait", "bound", "narrow")
COMPARED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
RELATIONS = ("<", "<=", ">", ">=")
WAITS = re.compile(
    r"(?:^|_)(?:wait|timedwait|s?fence|threadfence|barrier|synchronize|warp_sync|release|acquire"
    r"|s_waitcnt)(?:_|$)|^__sync(?:threads|warp)$"
)
REFUSES = re.compile(r"(?:^|_)(?:refused?|fail(?:s|ed)?|keep_failure|error|fail_memory)(?:_|$)")
# What gives the same bits either way round; so do all combinations of reductions.
COMMUTES = re.compile(r"(?:^|_)(?:add|mul|and|or|xor|min|max|eq|ne|combine)(?:_|$)")
PRODUCT = re.compile(r"(?:^|_)fma(?:_|$)")  # the first two arguments of these alone do
CANONICAL = re.compile(r"^ls_(?:canonical|round)_")
# What a compiler reads before anything runs.
CONSTANT_ALONE = {
    "ConstantExpr",
    "StaticAssertDecl",
    "UnaryExprOrTypeTraitExpr",
    "EnumDecl",
    "RecordDecl",
    "TypedefDecl",
    "OffsetOfExpr",
}
SIZES = {
    "_Bool": 1,
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "float": 4,
    "double": 8,
}
TRANSPARENT = ("ParenExpr", "ImplicitCastExpr")


class Mutant:
    """One fault: where, what, and how the text around it has to look."""

    def __init__(self, path, operator, text, span, after, switch):
        self.path, self.operator = path, operator
        self.begin, self.end = span
        self.before, self.after = text[self.begin : self.end], after
        self.switch = switch  # text ahead of the span, and behind it; None: only in the text
        self.line = text.count("\n", 0, self.begin) + 1
        start = text.rfind("\n", 0, self.begin) + 1
        stop = text.find("\n", self.begin)
        self.source = text[start : stop if stop >= 0 else len(text)].strip().rstrip("\\").strip()
        self.function = ""
        self.key = ""

    def describe(self):
        shown = " ".join(self.before.replace("\\\n", " ").split())
        after = " ".join(self.after.replace("\\\n", " ").split())
        return f"{self.path}:{self.line} {self.function}: {self.operator}: {shown} -> {after}"

    def changed(self, text):
        """The file's text with this fault."""
        return text[: self.begin] + self.after + text[self.end :]

    def stored(self):
        return dict(self.__dict__)

    @staticmethod
    def restored(stored):
        mutant = Mutant.__new__(Mutant)
        mutant.__dict__.update(stored)
        if mutant.switch:
            mutant.switch = tuple(mutant.switch)
        return mutant


def identify(mutants):
    """Names that last while the line does: of its text, its function and what changes in it."""
    seen = {}
    for mutant in mutants:
        key = (
            f"{mutant.path}:{mutant.function}:{mutant.operator}:{mutant.source}:"
            f"{' '.join(mutant.before.split())}:{' '.join(mutant.after.split())}"
        )
        seen[key] = seen.get(key, 0) + 1
        mutant.key = hashlib.sha256(f"{key}:{seen[key]}".encode()).hexdigest()[:10]


# ---- the syntax tree ----


@functools.lru_cache(maxsize=4)  # those of the device library, which serve all its files
def syntax_tree(clang, flags, path):
    words = [clang, *flags, "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json", path]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}:\n{done.stderr.decode(errors='replace')}")
    tree = json.loads(done.stdout)
    name_files(tree)
    return tree


def name_files(tree):
    """The dump names a file only where it changes: names it at every place."""
    current = ""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, dict):
            if "offset" in node:
                current = node.setdefault("file", current)
            values = [v for key, v in node.items() if key != "includedFrom"]
            stack.extend(reversed([v for v in values if isinstance(v, (dict, list))]))


def callee(node):
    inner = node.get("inner", [{}])[0]
    while inner.get("kind") in TRANSPARENT and inner.get("inner"):
        inner = inner["inner"][0]
    return inner.get("name", inner.get("referencedDecl", {}).get("name", "")).lstrip("->.")


def type_of(node):
    found = node.get("type", {})
    name = found.get("desugaredQualType", found.get("qualType", ""))
    return re.sub(r"\b(?:const|volatile)\b", "", name).strip()


def stripped(node):
    """Without brackets."""
    while node.get("kind") == "ParenExpr":
        node = node["inner"][0]
    return node


def is_float(name):
    return name in ("float", "double")


class Text:
    """A file, and where the nodes of its tree stand in it."""

    def __init__(self, path, name, text, in_macros):
        self.path, self.name, self.text = path, name, text
        self.in_macros = in_macros  # places in the bodies of macros count too
        self.inside_macros = set()  # what was left out

    def span(self, node):
        """First and last character of a node, or None where it is not this file's own text."""
        begin, end = node.get("range", {}).get("begin", {}), node.get("range", {}).get("end", {})
        if not begin or not end:
            return None
        if "spellingLoc" in begin and "spellingLoc" in end:
            same = begin["expansionLoc"].get("offset") == end["expansionLoc"].get("offset")
            given = "isMacroArgExpansion" in begin["expansionLoc"]
            given = given and "isMacroArgExpansion" in end["expansionLoc"]
            if same and (self.in_macros or given):
                return self.checked(begin["spellingLoc"], end["spellingLoc"])
            if same:
                self.inside_macros.add((begin["expansionLoc"].get("offset"), node.get("kind")))
                return None
        return self.checked(
            begin.get("expansionLoc", begin), end.get("expansionLoc", end), "expansionLoc" in end
        )

    def checked(self, begin, end, expands=False):
        if begin.get("file") != self.path or end.get("file") != self.path:
            return None
        first, last = begin["offset"], end["offset"] + end["tokLen"]
        if expands:  # a macro's name, and its arguments
            at = last
            while at < len(self.text) and self.text[at].isspace():
                at += 1
            if self.text[at : at + 1] == "(" and self.closing(at) is not None:
                last = self.closing(at)
        return (first, last) if first < last else None

    def closing(self, at):
        """Past the bracket that closes the one here."""
        depth = 0
        for found in re.compile(
            r'/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]', re.S
        ).finditer(self.text, at):
            depth += {"(": 1, ")": -1}.get(found.group(), 0)
            if depth == 0:
                return found.end()
        return None

    def of(self, span):
        return self.text[span[0] : span[1]]

    def statement(self, node):
        """A statement with its semicolon."""
        span = self.span(node)
        if not span:
            return None
        found = re.compile(r"[\s\\]*;").match(self.text, span[1])
        return (span[0], found.end()) if found else None

    def statement_end(self, span):
        """Where a statement ends without its semicolon."""
        return span[0] + len(self.of(span).rstrip("; \\\n"))


class Finder:
    def __init__(self, file, device):
        self.file, self.device = file, device
        self.found = {}
        self.function = ""
        self.in_constants = 0
        self.fixed = []  # arguments of macros that stand in constant expressions

    def add(self, operator, span, after, switch=None):
        if not span:
            return
        text = self.file.of(span)
        if "#" in text and "\n" in text:  # a directive stands in it
            return
        mutant = Mutant(self.file.name, operator, self.file.text, span, after, switch)
        mutant.function = self.function
        self.found.setdefault((operator, *span, after), mutant)

    # ---- the operators ----

    def comparison(self, node, parents):
        opcode = node.get("opcode")
        if opcode not in COMPARED:
            return
        span, sides = self.sides(node)
        if not span:
            return
        before = self.file.of(span)
        self.add("negate", span, f"!({before})", ("((", ") ^ mutant_at({0}))"))
        if opcode in RELATIONS:
            self.bound(node, span, parents)
        if self.device and sides and opcode in RELATIONS:
            self.swapped(span, sides, opcode)

    def sides(self, node):
        """The span of a binary operation and those of its operands, all proved by the text."""
        span = self.file.span(node)
        spans = [self.file.span(inner) for inner in node["inner"]]
        if not span or not all(spans):
            return (span, None) if not self.file.in_macros else (None, None)
        between = re.sub(r"/\*.*?\*/|[\s\\()]", "", self.file.text[spans[0][1] : spans[1][0]])
        good = between == node["opcode"] and span == (spans[0][0], spans[1][1])
        if not good and self.file.in_macros:
            return None, None
        return span, spans if good else None

    def bound(self, node, span, parents):
        parent, child = parents[-1], node
        at = len(parents) - 1
        while parent.get("kind") in TRANSPARENT and at > 0:
            child, at = parent, at - 1
            parent = parents[at]
        kind, before = parent.get("kind"), self.file.of(span)
        if kind == "BinaryOperator" and parent["opcode"] in ("&&", "||"):
            holds = parent["opcode"] == "&&"
        elif kind == "ConditionalOperator" and parent["inner"][0] is child:
            holds = True
        elif kind == "IfStmt" and parent["inner"][0] is child and not leaves(parent["inner"][1]):
            holds = True
        else:
            return
        switch = ("((", ") | mutant_at({0}))") if holds else ("((", ") & !mutant_at({0}))")
        self.add("bound", span, f"({before}, {1 if holds else 0})", switch)

    def constant(self, node, parents):
        span = self.file.span(node)
        if not span:
            return
        before = self.file.of(span)
        if not re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", before):
            return
        above = parents[-1].get("castKind")
        if above == "NullToPointer":
            return
        boolean = above == "IntegralToBoolean"
        if not boolean or int(node["value"]) == 0:
            self.add("constant", span, f"({before} + 1)", ("(", " + mutant_at({0}))"))
        if not boolean or int(node["value"]) != 0:
            self.add("constant", span, f"({before} - 1)", ("(", " - mutant_at({0}))"))

    def call(self, node, parents):
        name = callee(node)
        if WAITS.search(name):
            self.drop("wait", node, parents)
        elif REFUSES.search(name) and not self.device:
            self.drop("refuse", node, parents, statements_alone=True)
        if self.device:
            self.arguments(node, name)

    def drop(self, operator, node, parents, statements_alone=False):
        at, statement = len(parents) - 1, node
        while parents[at].get("castKind") == "ToVoid" or parents[at].get("kind") == "ParenExpr":
            statement, at = parents[at], at - 1
        if is_statement(statement, parents[at]):
            self.statement_out(operator, statement)
        elif not statements_alone and not self.device:
            kind = type_of(node)
            span = self.file.span(node)
            if span and (kind in SIZES or kind == "ls_status"):
                value = "1" if SIZES.get(kind) == 1 else "0"
                self.add(operator, span, value, ("(mutant_at({0}) ? " + value + " : ", ")"))

    def statement_out(self, operator, node):
        span = self.file.statement(node)
        if span and self.file.in_macros:  # proves that the text is the call
            name = callee(stripped(node["inner"][0] if "castKind" in node else node))
            called = re.compile(re.escape(name) + r"\(").match(self.file.text, span[0])
            if not called or self.file.closing(called.end() - 1) != self.file.statement_end(span):
                return
        if span:
            self.add(operator, span, ";", ("{{ if (!mutant_at({0})) ", " }}"))

    def refusal(self, node, parents):
        if self.device or not node.get("inner"):
            return
        span = self.file.span(node)
        if not span:
            return
        value = re.sub(r"^return\b\s*", "", self.file.of(span))
        inner = node["inner"][0]
        while inner.get("kind") in TRANSPARENT and inner.get("inner"):
            inner = inner["inner"][0]
        named = inner.get("referencedDecl", {}).get("name", "")
        if inner.get("kind") == "CallExpr" and REFUSES.search(callee(inner)):
            named = "LS_ERROR"
        if value not in ("false", "NULL") and not named.startswith("LS_ERROR"):
            return
        if not ends_function(node, parents):
            self.statement_out("refuse", node)
        elif value == "false":
            begin = span[1] - len(value)
            self.add("refuse", (begin, span[1]), "true", ("((", ") ^ mutant_at({0}))"))

    def cast(self, node, parents):
        to, inner = type_of(node), node["inner"][-1]
        source = type_of(inner)
        if to not in SIZES or source not in SIZES or SIZES[to] >= SIZES[source]:
            return
        if is_float(to) != is_float(source) and not is_float(source):
            return
        at, child = len(parents) - 1, node
        while parents[at].get("kind") == "ParenExpr":
            child, at = parents[at], at - 1
        span, inside = self.file.span(node), self.file.span(inner)
        if not span or not inside or not inside[0] > span[0] or inside[1] != span[1]:
            return
        before = self.file.text[span[0] : inside[0]].strip()
        if not before.startswith("(") or not before.endswith(")"):
            return
        value = self.file.of(inside)
        parent = parents[at]
        if parent.get("kind") == "ImplicitCastExpr":
            while parents[at - 1].get("kind") == "ImplicitCastExpr":
                at -= 1
            wide = type_of(parents[at])
            if SIZES.get(wide, 0) > SIZES[to] or (is_float(wide) and not is_float(to)):
                self.narrow(span, value, f"({wide})({value})")
        elif parent.get("kind") == "ArraySubscriptExpr" and parent["inner"][1] is child:
            self.narrow(span, value, f"({value})")
        elif parent.get("kind") == "BinaryOperator":
            differs = (*COMPARED, "/", "%", ">>") + (("+", "-", "*") if is_float(to) else ())
            first = parent["inner"][0] is child
            if parent["opcode"] in differs and (first or parent["opcode"] != ">>"):
                around = self.file.span(parent)
                kind = type_of(parent)
                if around and kind in SIZES and around[0] <= span[0] and span[1] <= around[1]:
                    whole = self.file.text[around[0] : span[0]] + f"({value})"
                    whole += self.file.text[span[1] : around[1]]
                    self.narrow_around(span, value, around, f"({kind})({whole})")

    def narrow(self, span, value, wide):
        self.add("narrow", span, f"({value})", ("(mutant_at({0}) ? " + raw(wide) + " : ", ")"))

    def narrow_around(self, span, value, around, whole):
        """The switch stands around the operation, whose type may change."""
        if self.device:
            self.add("narrow", span, f"({value})")
            return
        self.add("narrow", around, whole, ("(mutant_at({0}) ? " + raw(whole) + " : (", "))"))

    # ---- of the device library alone ----

    def swapped(self, span, sides, opcode):
        left, right = (self.file.of(side) for side in sides)
        if left != right:
            self.add("swap", span, f"({right}) {opcode} ({left})")

    def arithmetic(self, node):
        if not self.device or node.get("opcode") not in ("-", "/", "%", "<<", ">>"):
            return
        span, sides = self.sides(node)
        if span and sides:
            self.swapped(span, sides, node["opcode"])

    def arguments(self, node, name):
        given = node.get("inner", [])[1:]
        spans = [self.file.span(argument) for argument in given]
        if CANONICAL.match(name) and len(given) == 1 and spans[0]:
            span = self.file.span(node)
            if span and self.file.text.startswith(name, span[0]):
                self.add("narrow", span, f"({self.file.of(spans[0])})")
        if COMMUTES.search(name):
            return
        for i in range(1 if PRODUCT.search(name) else 0, len(given) - 1):
            first, second = spans[i], spans[i + 1]
            if not first or not second or type_of(given[i]) != type_of(given[i + 1]):
                continue
            between = self.file.text[first[1] : second[0]]
            if re.sub(r"[\s\\]", "", between) != "," or self.file.of(first) == self.file.of(second):
                continue
            after = self.file.of(second) + between + self.file.of(first)
            self.add("swap", (first[0], second[1]), after)
            return

    # ---- the walk ----

    def fix(self, node):
        """Where an argument of a macro stands in a constant expression, it may stand elsewhere
        too."""
        if "expansionLoc" in node.get("range", {}).get("begin", {}):
            span = self.file.span(node)
            self.fixed += [span] if span else []
        for inner in node.get("inner", []):
            self.fix(inner)

    def switchable(self, mutant):
        return mutant.operator in ("refuse", "wait") or not any(
            begin <= mutant.begin < end or mutant.begin <= begin < mutant.end
            for begin, end in self.fixed
        )

    def walk(self, node, parents):
        kind = node.get("kind")
        static = kind == "VarDecl" and node.get("storageClass") == "static"
        if not self.device and (static or kind in CONSTANT_ALONE):
            self.in_constants += literals(node)
            self.fix(node)
            return
        if kind == "BinaryOperator":
            self.comparison(node, parents)
            self.arithmetic(node)
        elif kind == "IntegerLiteral":
            self.constant(node, parents)
        elif kind == "ReturnStmt":
            self.refusal(node, parents)
        elif kind == "CStyleCastExpr":
            self.cast(node, parents)
        elif kind == "CallExpr":
            self.call(node, parents)
            if callee(node).startswith("__builtin_"):
                return
        for inner in node.get("inner", []):
            if inner:
                self.walk(inner, [*parents, node])

    def functions(self, tree):
        for node in tree.get("inner", []):
            place = node.get("loc", {})
            place = place.get("expansionLoc", place)
            inner = node.get("inner", [])
            if node.get("kind") in ("LinkageSpecDecl", "NamespaceDecl"):
                self.functions(node)
            elif node.get("kind") == "FunctionDecl" and inner:
                if not self.file.in_macros and place.get("file") != self.file.path:
                    continue
                self.function = node.get("name", "")
                for part in inner:
                    if part.get("kind") == "CompoundStmt":
                        self.walk(part, [node])
            elif self.device and node.get("kind") == "VarDecl":
                self.function = node.get("name", "")
                self.walk(node, [tree])
            elif place.get("file") == self.file.path:
                self.in_constants += literals(node)


def raw(text):
    """Text on one line, as a format."""
    return " ".join(text.replace("\\\n", " ").split()).replace("{", "{{").replace("}", "}}")


def literals(node):
    count = node.get("kind") == "IntegerLiteral"
    return count + sum(literals(inner) for inner in node.get("inner", []) if inner)


def leaves(node):
    """A branch that only returns, or goes on elsewhere."""
    if node.get("kind") == "CompoundStmt":
        inner = node.get("inner", [])
        return len(inner) == 1 and leaves(inner[0])
    return node.get("kind") in ("ReturnStmt", "ContinueStmt", "BreakStmt", "GotoStmt")


def is_statement(node, parent):
    kind, inner = parent.get("kind"), parent.get("inner", [])
    if kind in ("CompoundStmt", "CaseStmt", "DefaultStmt", "LabelStmt"):
        return inner and (kind == "CompoundStmt" or inner[-1] is node)
    if kind == "DoStmt":
        return inner[0] is node
    if kind in ("IfStmt", "WhileStmt", "ForStmt"):
        return any(part is node for part in inner[1:]) and (kind != "ForStmt" or inner[-1] is node)
    return False


def ends_function(node, parents):
    """Without this statement the function would end without a value."""
    for parent in reversed(parents):
        kind, inner = parent.get("kind"), parent.get("inner", [])
        if kind == "CompoundStmt" and inner[-1] is not node:
            return False
        if kind in ("ForStmt", "WhileStmt", "DoStmt"):
            return False
        if kind == "FunctionDecl":
            return True
        node = parent
    return True


def read(path):
    """A text whose characters are its bytes, as the tree counts them."""
    with open(path, encoding="latin-1", newline="") as file:
        return file.read()


def find(clang, flags, path, name, wrappers=()):
    """All mutants of a file, and how much was left out: integers in constant expressions, places
    in the bodies of macros. `wrappers` (flags, path) are what to compile for a file of the device
    library."""
    device = bool(wrappers)
    source = Text(path, name, read(path), in_macros=device)
    finder = Finder(source, device)
    for own, compiled in wrappers or ((flags, path),):
        finder.functions(syntax_tree(clang, tuple(own), compiled))
    found = [mutant for mutant in finder.found.values() if finder.switchable(mutant)]
    found = sorted(found, key=lambda m: (m.begin, -m.end, m.operator, m.after))
    identify(found)
    return found, finder.in_constants, len(source.inside_macros)


def switched(text, mutants, first):
    """The text with all mutants behind switches, numbered from `first` on."""
    opening, closing = {}, {}
    for i, mutant in enumerate(mutants):
        ahead, behind = (part.format(first + i) for part in mutant.switch)
        opening.setdefault(mutant.begin, []).append((-mutant.end, -i, ahead))
        closing.setdefault(mutant.end, []).append((-mutant.begin, i, behind))
    made, at = [], 0
    for place in sorted({*opening, *closing}):
        made.append(text[at:place])
        made.extend(behind for _, _, behind in sorted(closing.get(place, [])))
        made.extend(ahead for _, _, ahead in sorted(opening.get(place, [])))
        at = place
    made.append(text[at:])
    return "".join(made)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="a C file")
    parser.add_argument("--clang", default="clang", help="whose syntax tree")
    parser.add_argument("--device", action="store_true", help="as text of the device library")
    parser.add_argument("--switched", action="store_true", help="print the text with switches")
    words, flags = parser.parse_known_args()
    path = os.path.abspath(words.file)
    wrappers = [(flags, path)] if words.device else ()
    found, constants, macros = find(words.clang, flags, path, words.file, wrappers)
    if words.switched:
        print(switched(read(path), found, 0), end="")
        return
    for number, mutant in enumerate(found):
        print(number, mutant.describe())
    print(f"left out: {constants} integers in constant expressions, {macros} places in macros")


if __name__ == "__main__":
    main()
