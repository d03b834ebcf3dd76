# SPDX-License-Identifier: BSD-3-Clause
"""What the public headers declare for C programs, each with its comment: functions, types, and the files themselves.

The comments are a small part of Doxygen: @file, @brief, @param, @return, @p, and groups by @name with @{ and @}. This
knows of no other part; the callers notice what is missing from a comment.
"""
import os
import re

COMMENT = re.compile(r'/\*\*(.*?)\*/', re.S)
FUNCTION = re.compile(r'^(?:static inline )?((?:const )?(?:struct )?\w+(?: \w+)?[ *]+)(selvage_\w+)'
                      r'\(([^;{]*?)\)\s*[;{]', re.M)
TYPE = re.compile(r'typedef (?:struct|enum) ?\w* ?\{.*?\n\} (selvage_\w+);|'
                  r'typedef [^;{]*?\(\*(selvage_\w+)\)\([^;]*\);|typedef [^;{]*?\b(selvage_\w+);', re.S)
COMMAND = re.compile(r'@(brief|file|name|return|param(?:\[[\w,]+\])?)[ \t]*')


class Comment:
    """A comment, taken apart: brief and body are text, params maps names to text, returns is text or ''."""

    def __init__(self, raw):
        lines = [re.sub(r'^\s*\* ?', '', line) for line in raw.split('\n')]
        text = '\n'.join(lines).strip('\n ').replace('@{', '')
        self.brief = self.returns = self.name = self.file = self.body = ''
        self.params = {}
        parts = COMMAND.split(text)
        self.body = parts[0].strip('\n ')
        for command, words in zip(parts[1::2], parts[2::2]):
            self.take(command, words)

    def take(self, command, words):
        paragraph, _, rest = words.partition('\n\n')
        paragraph = ' '.join(paragraph.split())
        if command.startswith('param'):
            names, _, meaning = paragraph.partition(' ')
            for name in names.split(','):
                self.params[name] = meaning.strip()
        elif command == 'return':
            self.returns = paragraph
        elif command == 'brief':
            self.brief = paragraph
        elif command == 'file':
            self.file = paragraph
        else:  # the title of a group is one line, and what follows is the group's text
            self.name, _, more = words.partition('\n')
            rest = more
        self.body = (self.body + '\n\n' + rest.strip('\n')).strip('\n')

    def text(self):
        return '\n\n'.join(part for part in (self.brief, self.body) if part)


class Declared:
    """A function or a type: its name, header, code, comment, and the comment of the group that it is in, or None."""

    def __init__(self, kind, name, header, code, comment, group):
        self.kind, self.name, self.header, self.code = kind, name, header, code
        self.comment = comment or Comment('')
        self.group = group
        self.result = ''
        self.parameters = []  # of a function: (declaration, name) of each


def parameters(text):
    """Yields (declaration, name) of each parameter."""
    for part in ' '.join(text.split()).split(','):
        part = part.strip()
        if part not in ('', 'void'):
            called = re.search(r'(\w+)(?:\[\w*\])?$', part)
            yield part, called.group(1)


def groups(text):
    """Yields (begin, end, comment) of what stands between @{ and @}."""
    begin = None
    for match in COMMENT.finditer(text):
        if '@{' in match.group(1):
            begin, comment = match.end(), Comment(match.group(1))
        elif '@}' in match.group(1) and begin is not None:
            yield begin, match.start(), comment
            begin = None


def before(text, place):
    """The comment that ends where a declaration begins, or None."""
    last = None
    for match in COMMENT.finditer(text, 0, place):
        last = match
    if last and '@{' not in last.group(1) and '@}' not in last.group(1) and text[last.end():place].strip() == '':
        return Comment(last.group(1))
    return None


def blanked(text):
    """The text with comments and the lines of the preprocessor made blanks, so that places stay."""
    def blanks(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    text = re.sub(r'/\*.*?\*/', blanks, text, flags=re.S)
    return re.sub(r'^ *#(?:[^\n]*\\\n)*[^\n]*$', blanks, text, flags=re.M)


def declared(path):
    """(comment of the file, list of Declared) of a header, in its order; what only C++ sees is left out."""
    header = os.path.basename(path)
    with open(path, encoding='utf-8') as opened:
        text = opened.read()
    file_comment = next((Comment(found) for found in COMMENT.findall(text) if '@file' in found), Comment(''))
    code = blanked(text)
    within = list(groups(text))
    found = []
    for match in FUNCTION.finditer(code):
        if match.group(1).split()[0] in ('return', 'else', 'typedef', 'SELVAGE_DEVICE_FN'):
            continue  # kernels call SELVAGE_DEVICE_FN, in C++
        group = next((comment for begin, end, comment in within if begin <= match.start() < end), None)
        one = Declared('function', match.group(2), header, text[match.start():match.end() - 1].rstrip() + ';',
                       before(text, match.start()), group)
        one.result = ' '.join(match.group(1).split())
        one.parameters = list(parameters(match.group(3)))
        found.append((match.start(), one))
    for match in TYPE.finditer(code):
        name = next(part for part in match.groups() if part)
        comment = before(text, match.start())
        if comment:
            one = Declared('type', name, header, text[match.start():match.end()], comment, None)
            found.append((match.start(), one))
    return file_comment, [one for _, one in sorted(found, key=lambda pair: pair[0])]


def statuses(path):
    """Maps each name of the table of statuses, without SELVAGE_, to its text."""
    with open(path, encoding='utf-8') as opened:
        return dict(re.findall(r'^ *X\((\w+), -?\d+, +"([^"]*)"\)', opened.read(), re.M))
