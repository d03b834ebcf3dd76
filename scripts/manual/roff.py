# SPDX-License-Identifier: BSD-3-Clause
"""Text of comments and pages as the macros of man(7)."""
import re

NAMES = re.compile(r'\b(?:(selvage_\w+)(\(\))?|(SELVAGE_\w+|ERR_[A-Z]+|IN_PROGRESS|SUCCESS)\b)')


def escaped(text):
    """A line of text that roff leaves as it is; no font changes in it."""
    text = text.replace('\\', '\\e')
    for character, name in (('\u2013', '\\(en'), ('\u00d7', '\\(mu'), ('^', '\\(ha'), ('~', '\\(ti')):
        text = text.replace(character, name)
    return text


def guarded(line):
    """The same where the line would begin like a request."""
    return '\\&' + line if line[:1] in ('.', "'") else line


class Text:
    """Writes text with the names that have pages in bold, followed by their section."""

    def __init__(self, pages):
        self.pages = pages  # name of a page -> section

    def named(self, match):
        name, call, constant = match.groups()
        if constant:
            return '\\fB%s\\fR' % (constant if constant.startswith('SELVAGE_') else 'SELVAGE_' + constant)
        section = '(%s)' % self.pages[name] if name in self.pages else call or ''
        return '\\fB%s\\fR%s' % (name, section)

    def inline(self, text):
        text = escaped(text)
        text = re.sub(r'@[pc] (\w+)', r'\\fI\1\\fR', text)
        text = re.sub(r'#(selvage_\w+)', r'\1', text)
        text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
        parts = text.split('`')
        for place, part in enumerate(parts):
            if place % 2 and not NAMES.fullmatch(part):
                parts[place] = '\\fB%s\\fR' % part.replace('-', '\\-')
            else:
                parts[place] = NAMES.sub(self.named, part)
        return ''.join(parts)

    def sentences(self, text):
        """Lines of one sentence each, as sources of manual pages have them."""
        for line in re.split(r'(?<=[.:]) +(?=[A-Z@`])', ' '.join(text.split())):
            yield guarded(self.inline(line))

    def blocks(self, text):
        """Lines for paragraphs, lists of items that begin with "- ", and code, which is indented by four."""
        first = True
        for block in re.split(r'\n[ \t]*\n', text.strip('\n')):
            lines = block.split('\n')
            if all(line.startswith('    ') for line in lines):
                yield from code(block)
                first = False
                continue
            for item in re.split(r'\n(?=- )', block.strip('\n')):
                if item.startswith('- '):
                    yield '.IP \\(bu 2'
                    item = item[2:]
                elif not first:
                    yield '.PP'
                first = False
                yield from self.sentences(item)


def code(text):
    """Lines that are shown as they are."""
    yield '.PP'
    yield '.nf'
    yield '.RS 4'
    for line in text.strip('\n').split('\n'):
        yield guarded(escaped(line.rstrip()).replace('-', '\\-')) if line.strip() else ''
    yield '.RE'
    yield '.fi'
