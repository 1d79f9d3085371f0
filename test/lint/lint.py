#!/usr/bin/env python3
"""The toolchain laws and the layers of the house, checked on the text of the sources.

g++ 12 compiles some everyday coroutine expressions silently wrong (temporaries are destroyed twice), so a reader must be able to
see that they do not occur. This is a tokenizer and a bracket counter, not a C++ parser: it is strict rather than clever. Where it
is wrong, or where a rule is broken on purpose, say so on that line or the one before: `// lint: <rule> <reason>`.

  law1     one co_await per statement; in such a statement no brace-built temporary, capturing lambda or ?: at all
  law2     a coroutine takes its parameters by value: no reference, string_view or span (out-parameters: see out_types)
  layers   a room includes only rooms below it
  headers  public headers are free of Beast, TLS, OpenSSL, yaml-cpp, zlib and Boost.JSON (but for its forward declarations
           and object/json.hpp)
  sleep    no sleeping in library or tests: time is passed in
"""
import os
import re
import sys

rules = ("law1", "law2", "layers", "headers", "sleep")

# References that a coroutine may take: out-parameters and interfaces that its caller keeps alive while it awaits.
out_types = re.compile(r"(?:\w+::)*(?:failure|object_sink|error_code|body_parts)&")

# What each room may use (docs/design); allowed(x) follows it downwards.
uses = {
    "root": [],
    "object": ["root"],
    "http": ["root"],
    "source": ["object"],
    "kubernetes": ["http", "source"],
    "etcd": ["http", "source"],
    "cache": ["source"],
    "queue": ["root"],
    "controller": ["cache", "queue", "kubernetes"],
    "serving": ["http", "root"],
    "testing": ["root", "object", "http", "source", "kubernetes", "etcd", "cache", "queue", "controller"],
}


def allowed(room):
    found, todo = set(), [room]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += uses[one]
    return found


# --- text -> tokens ---------------------------------------------------------------------------------------------------

token_pattern = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<raw>     (?:u8|[uUL])?R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)" )
  | (?P<text>    (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<hash>    ^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])* )
  | (?P<number>  \.?\d(?:'?[\w.]|[eEpP][+-])* )
  | (?P<word>    [A-Za-z_]\w* )
  | (?P<sign>    :: | -> | && | \|\| | \.\.\. | <=> | [<>=!+\-*/%&|^]= | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


class Token:
    __slots__ = ("text", "line", "kind")

    def __init__(self, text, line, kind):
        self.text, self.line, self.kind = text, line, kind


class Source:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = []
        self.comments = {}  # line -> text
        self.includes = []  # (line, name)
        line, at = 1, 0
        for match in token_pattern.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
            if kind == "comment":
                for offset, part in enumerate(match.group().split("\n")):
                    self.comments[line + offset] = self.comments.get(line + offset, "") + part
            elif kind == "hash":
                include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', match.group())
                if include:
                    self.includes.append((line, include[1]))
                comment = re.search(r"//.*", match.group())
                if comment:
                    self.comments[line] = comment.group()
            else:
                self.tokens.append(Token(match.group(), line, kind))

    def waived(self, rule, first, last=None):
        """Is there `lint: <rule> <reason>` on these lines or in the comment right above them?"""
        pattern = re.compile(r"lint:\s*" + rule + r"\s+\S")
        if any(pattern.search(self.comments.get(line, "")) for line in range(first, (last or first) + 1)):
            return True
        code_lines = {token.line for token in self.tokens}
        above = first - 1
        while above in self.comments and above not in code_lines:
            if pattern.search(self.comments[above]):
                return True
            above -= 1
        return False


# --- tokens -> statements and blocks ----------------------------------------------------------------------------------

control = {"if", "for", "while", "switch", "catch"}
before_lambda = {"(", ",", "=", "{", "return", "co_return", "co_await", "co_yield", "?", ":", "&&", "||", "!", "<", ";", "}", "+", "*"}


class Statement:
    """The tokens of one full-expression or declaration, without those of the blocks inside it."""

    def __init__(self):
        self.tokens = []
        self.braces = []  # lines of brace initialisers
        self.lambdas = []  # lines of capturing lambdas


class Function:
    def __init__(self, parameters, line):
        self.parameters, self.line, self.coroutine = parameters, line, False


class Parser:
    def __init__(self, source):
        self.source, self.tokens = source, source.tokens
        self.statements, self.functions = [], []
        self.match = self.match_brackets()

    def match_brackets(self):
        """Index of the partner of each bracket."""
        partner, stack = {}, []
        for index, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in "([{":
                stack.append(index)
            elif token.text in ")]}" and stack:
                opened = stack.pop()
                partner[opened], partner[index] = index, opened
        return partner

    def text(self, index):
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def is_lambda(self, index):
        """Does the [ at index introduce a lambda (and not a subscript, an attribute, a structured binding, delete[])?"""
        before = self.text(index - 1)
        if self.text(index + 1) == "[" or before == "[":
            return False  # attribute
        if before in ("&", "&&") and self.text(index - 2) in ("auto", "const"):
            return False  # auto& [a, b]
        if before and before not in before_lambda and not (self.tokens[index - 1].kind == "sign" and before not in ")]>&*"):
            return False
        after = self.text(self.match.get(index, len(self.tokens)) + 1)
        return after in ("(", "{", "<", "mutable", "->", "noexcept", "constexpr")

    def head(self, index, start):
        """What the { at index opens: ('init', None), ('block', None) or ('block', parameters) of a function or lambda."""
        at = index - 1
        # A trailing return type: back over it to its arrow, if there is one.
        probe = at
        while probe >= start and (
            self.tokens[probe].kind == "word" or self.text(probe) in ("::", "<", ">", "&", "*", ",", "&&", "...", ")", "]")
        ):
            if self.text(probe) in ")]":
                if self.text(probe - 1) == "" or probe not in self.match or self.match[probe] < start:
                    break
                if self.text(self.match[probe] - 1) not in ("decltype", "noexcept"):
                    break
                probe = self.match[probe]
            probe -= 1
        if self.text(probe) == "->":
            at = probe - 1
        while self.text(at) in ("const", "noexcept", "override", "final", "mutable", "&", "&&", "constexpr", "try") or (
            self.text(at) == ")" and self.text(self.match.get(at, 0) - 1) in ("noexcept", "requires")
        ):
            at = self.match[at] - 2 if self.text(at) == ")" else at - 1
        before = self.text(at)
        if before == ")":
            opened = self.match.get(at, -1)
            name = opened - 1
            if self.text(name) in control or (self.text(name) == "constexpr" and self.text(name - 1) == "if"):
                return "block", None
            return "block", (opened, at)
        if before == "]":
            return ("block", (at, at)) if self.is_lambda(self.match.get(at, -1)) else ("init", None)
        if at < start or before in (";", "{", "}", ":", "else", "do", "try", ""):
            return "block", None
        for word in range(start, index):
            if self.text(word) in ("class", "struct", "union", "enum", "namespace", "extern", "concept"):
                return "block", None
            if self.text(word) == "requires" and before == ")":
                return "block", None
            if self.text(word) in ("=", "(", "return", "co_return", "co_await"):
                break
        return "init", None

    def run(self):
        stack, functions = [], []  # of (bracket, the statement that goes on after a block, the function it is of)
        statement, start = Statement(), 0

        def finish():
            nonlocal statement
            if statement.tokens:
                self.statements.append(statement)
            statement = Statement()

        for index, token in enumerate(self.tokens):
            text = token.text if token.kind in ("sign", "word") else ""
            if text == "{":
                kind, parameters = self.head(index, start)
                inside_expression = stack and stack[-1][0] != "block"
                if kind == "init" or (inside_expression and parameters is None):
                    statement.braces.append(token.line)
                    stack.append(("init", None, None))
                    statement.tokens.append(token)
                    continue
                function = None
                if parameters is not None:
                    first, last = parameters
                    function = Function(self.tokens[first + 1 : last], self.tokens[first].line)
                    functions.append(function)
                if not (inside_expression or (parameters is not None and self.is_value(index, start))):
                    finish()
                stack.append(("block", statement, function))
                statement, start = Statement(), index + 1
            elif text == "}":
                kind, outer, function = stack.pop() if stack else ("init", None, None)
                if kind == "init":
                    statement.tokens.append(token)
                    continue
                finish()
                if function is not None:
                    functions.pop()
                    if function.coroutine:
                        self.functions.append(function)
                statement = outer if outer is not None else Statement()
                if not statement.tokens:
                    start = index + 1
            elif text in ("(", "["):
                if text == "[" and self.is_lambda(index) and self.match[index] > index + 1:
                    statement.lambdas.append(token.line)
                stack.append((text, None, None))
                statement.tokens.append(token)
            elif text in (")", "]"):
                if stack and stack[-1][0] in ("(", "["):
                    stack.pop()
                statement.tokens.append(token)
            elif text == ";":
                finish()  # also inside for (…; …; …) and if (…; …): full-expressions of their own
                start = index + 1
            else:
                if text in ("co_await", "co_return", "co_yield") and functions:
                    functions[-1].coroutine = True
                if text == ":" and not statement_is_conditional(statement) and self.is_label(statement):
                    finish()
                    start = index + 1
                    continue
                statement.tokens.append(token)
        finish()
        return self

    def is_value(self, index, start):
        """Is the block at index the body of a lambda that is part of the statement around it?"""
        return any(self.text(at) == "[" and self.is_lambda(at) for at in range(start, index))

    @staticmethod
    def is_label(statement):
        first = statement.tokens[0].text if statement.tokens else ""
        return first in ("case", "default", "public", "private", "protected")


def statement_is_conditional(statement):
    return any(token.text == "?" for token in statement.tokens)


# --- the rules --------------------------------------------------------------------------------------------------------


def law1(source, parser):
    for statement in parser.statements:
        awaits = [token for token in statement.tokens if token.text == "co_await"]
        if not awaits:
            continue
        first, last = statement.tokens[0].line, statement.tokens[-1].line
        if source.waived("law1", first, last):
            continue
        line = awaits[0].line
        if len(awaits) > 1:
            yield awaits[1].line, "a second co_await in one statement"
        if statement.braces:
            yield line, "a brace-built temporary in a statement with co_await: name it first, then std::move it"
        if statement.lambdas:
            yield line, "a capturing lambda in a statement with co_await: name it first, then std::move it"
        if statement_is_conditional(statement):
            yield line, "?: in a statement with co_await: use if/else into a named value"


def split_parameters(tokens):
    part, depth = [], 0
    for token in tokens:
        if token.text in ("(", "[", "{", "<"):
            depth += 1
        elif token.text in (")", "]", "}", ">"):
            depth -= 1
        if token.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def law2(source, parser):
    for function in parser.functions:
        for parameter in split_parameters(function.parameters):
            default = next((i for i, token in enumerate(parameter) if token.text == "="), len(parameter))
            declared = parameter[:default]
            depth, reference, view = 0, False, None
            for token in declared:
                if token.text in ("<", "("):
                    depth += 1
                elif token.text in (">", ")"):
                    depth -= 1
                elif depth == 0 and token.text in ("&", "&&"):
                    reference = True
                elif depth == 0 and token.text in ("string_view", "span"):
                    view = token.text
            if not reference and not view:
                continue
            line = parameter[0].line
            text = "".join(token.text for token in declared if token.text != "const")
            is_const = any(token.text == "const" for token in declared)
            if reference and not is_const and out_types.match(text):
                continue
            if source.waived("law2", function.line, parameter[-1].line):
                continue
            yield line, "a coroutine takes " + ("a reference" if reference else "a " + view) + f" ({' '.join(t.text for t in declared)})"


def room_of(path):
    found = re.match(r"libinformer/(?:include/informer|src)/(?:([\w-]+)/)?", path)
    if not found:
        return None
    return found[1] if found[1] in uses else "root"  # root's headers and detail/ lie at the top


def room_of_include(name):
    found = re.match(r"informer/(?:([\w-]+)/)?[\w.-]+", name)
    if found:
        return found[1] if found[1] in uses else "root"
    first = name.split("/")[0]
    return first if "/" in name and first in uses else None


def layers(source, parser):
    room = room_of(source.path)
    if room is None:
        return
    may = allowed(room)
    for line, name in source.includes:
        other = room_of_include(name)
        if other is None and name.startswith("../"):
            other = room_of(os.path.normpath(os.path.join(os.path.dirname(source.path), name)))
        if other is not None and other not in may and not source.waived("layers", line):
            yield line, f"{room}/ must not use {other}/ ({name})"


forbidden = re.compile(r"boost/beast|boost/asio/ssl|openssl/|yaml-cpp/|zlib\.h|boost/json(?!/fwd\.hpp)|boost/asio\.hpp|boost/url")
json_value = {"boost/json/value.hpp"}


def headers(source, parser):
    if not source.path.startswith("libinformer/include/"):
        return
    for line, name in source.includes:
        if name in json_value and source.path.endswith("informer/object/json.hpp"):
            continue
        if forbidden.match(name) and not source.waived("headers", line):
            yield line, f"<{name}> in a public header: users would pay for it in every unit"


def sleep(source, parser):
    if not source.path.startswith(("libinformer/", "test/")):
        return
    texts = [token.text for token in source.tokens]
    for index, token in enumerate(source.tokens):
        called = index + 1 < len(texts) and texts[index + 1] == "("
        on_thread = texts[max(index - 2, 0) : index] == ["this_thread", "::"] and token.text.startswith("sleep_")
        if (on_thread or (called and token.text in ("usleep", "nanosleep"))) and not source.waived("sleep", token.line):
            yield token.line, "sleeping: wait for what you wait for, or turn a manual clock"


checks = {"law1": law1, "law2": law2, "layers": layers, "headers": headers, "sleep": sleep}


def lint(path, text):
    source = Source(path, text)
    parser = Parser(source).run()
    return sorted({(line, rule, message) for rule, check in checks.items() for line, message in check(source, parser)})


# --- running it -------------------------------------------------------------------------------------------------------


def sources():
    for top in ("libinformer", "apps", "test", "docs/examples"):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(f for f in folders if os.path.join(folder, f) not in ("test/lint/samples", "test/canary"))
            for name in sorted(files):
                if name.endswith((".hpp", ".cpp", ".ipp")):
                    yield os.path.join(folder, name)


def self_test():
    """Each sample names the path it pretends to have, and on each line the rules that must be broken there, no others."""
    folder, bad = "test/lint/samples", 0
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        path = re.match(r"// path: (\S+)", text)[1]
        expected = set()
        for number, line in enumerate(text.split("\n"), 1):
            found = re.search(r"// expect: ([\w ]+)", line)
            if found:
                expected |= {(number, rule) for rule in found[1].split()}
        found = {(line, rule) for line, rule, _ in lint(path, text)}
        for line, rule in sorted(expected - found):
            print(f"{folder}/{name}:{line}: self-test: {rule} not found", file=sys.stderr)
        for line, rule in sorted(found - expected):
            print(f"{folder}/{name}:{line}: self-test: {rule} found, though nothing is wrong", file=sys.stderr)
        bad += expected != found
    return bad == 0


def main():
    results = {"self-test": self_test()}
    results |= {rule: True for rule in rules}
    for path in sys.argv[1:] or sources():
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for line, rule, message in lint(path, text):
            print(f"{path}:{line}: {rule}: {message}", file=sys.stderr)
            results[rule] = False
    print(f"{sum(results.values())} passed, {len(results) - sum(results.values())} failed")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
