# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages to HTML: the macros of man(7) and escapes of roff that pages of this tree use; others are refused."""
import html
import re
import shlex

CHARACTERS = {'bu': '\u2022', 'en': '\u2013', 'em': '\u2014', 'mu': '\u00d7', 'ha': '^', 'ti': '~', 'aq': "'",
              'dq': '"', 'lq': '\u201c', 'rq': '\u201d'}
ESCAPE = re.compile(r'\\(?:\((..)|f(.)|([-e&| ,/]))')
FONTS = {'B': 'strong', 'I': 'em'}
PAGE = re.compile(r'(?:<(?:strong|em)>)?(selvage[\w.-]*)(?:</(?:strong|em)>)?\((\d)\)')


class Page:
    """One page. where(name, section) gives the address of another, or None. Then title and body are what it says."""

    def __init__(self, text, where):
        self.where = where
        self.title, self.out, self.open, self.raw = '', [], [], False
        self.tag = False  # the next line is the tag of a paragraph that begins with one
        for line in text.split('\n'):
            self.line(line)
        self.close(0)
        self.body = PAGE.sub(self.linked, '\n'.join(self.out))

    def linked(self, match):
        page = self.where(match[1], match[2])
        return '<a href="%s">%s</a>' % (page, match[0]) if page else match[0]

    def text(self, text, font='R'):
        words, current, at = [], font, 0

        def say(piece, of):
            if piece:
                piece = html.escape(piece, quote=False)
                words.append('<%s>%s</%s>' % (FONTS[of], piece, FONTS[of]) if of in FONTS else piece)
        held = ''
        for match in ESCAPE.finditer(text):
            held += text[at:match.start()]
            at = match.end()
            if match[2]:
                say(held, current)
                held, current = '', font if match[2] in 'PR' else match[2]
            elif match[1]:
                held += CHARACTERS[match[1]]
            else:
                held += {'-': '-', 'e': '\\', ' ': ' '}.get(match[3], '')
        say(held + text[at:], current)
        return ''.join(words)

    def close(self, depth):
        while len(self.open) > depth:
            self.out.append('</%s>' % self.open.pop())

    def begin(self, tag):
        self.open.append(tag)
        self.out.append('<%s>' % tag)

    def paragraph(self):
        while self.open and self.open[-1] != 'blockquote':
            self.close(len(self.open) - 1)

    def entry(self, tag):
        if 'dl' not in self.open[self.open.index('blockquote') if 'blockquote' in self.open else 0:]:
            self.paragraph()
            self.begin('dl')
        while self.open[-1] != 'dl':
            self.close(len(self.open) - 1)
        if tag is not None:
            self.out.append('<dt>%s</dt>' % tag)
            self.begin('dd')

    def say(self, words):
        if self.tag:
            self.tag = False
            self.entry(words)
            return
        if not self.raw and (not self.open or self.open[-1] == 'blockquote'):
            self.begin('p')
        self.out.append(words)

    def line(self, line):
        if line.startswith('.\\"') or line in ('.', "'"):
            return
        match = re.match(r'\.(\w+) ?(.*)', line)
        if not match:
            if line or self.raw:
                self.say(self.text(line))
            return
        macro, rest = match.groups()
        words = shlex.split(rest.replace('\\', '\\\\').replace("'", "\\'")) if rest else []
        if macro in ('B', 'I'):
            self.say(self.text(' '.join(words), macro))
        elif len(macro) == 2 and set(macro) <= set('BIR'):
            self.say(''.join(self.text(word, macro[place % 2]) for place, word in enumerate(words)))
        elif macro == 'TH':
            self.title = '%s(%s)' % (words[0].lower() if words[0].isupper() else words[0], words[1])
            self.out.append('<h1>%s</h1>' % html.escape(self.title).replace('(', '&#40;'))  # no link to itself
        elif macro in ('SH', 'SS'):
            self.close(0)
            tag = 'h2' if macro == 'SH' else 'h3'
            self.out.append('<%s>%s</%s>' % (tag, self.text(' '.join(words)), tag))
        else:
            self.layout(macro, words)

    def layout(self, macro, words):
        if self.raw and macro == 'PP':
            self.out.append('')
        elif macro == 'PP':
            self.paragraph()
        elif macro == 'TP':
            self.tag = True
        elif macro == 'IP':
            self.entry(self.text(words[0]) if words else '')
        elif macro in ('RS', 'RE') and self.raw:
            pass  # what is shown as it is has an indentation of its own
        elif macro == 'RS':
            self.begin('blockquote')
        elif macro == 'RE':
            while self.open[-1] != 'blockquote':
                self.close(len(self.open) - 1)
            self.close(len(self.open) - 1)
        elif macro == 'nf':
            self.paragraph()
            self.begin('pre')
            self.raw = True
        elif macro == 'fi':
            self.raw = False
            while self.open[-1] != 'pre':
                self.close(len(self.open) - 1)
            self.close(len(self.open) - 1)
        elif macro == 'br':
            self.out.append('<br>')
        else:
            raise ValueError('a macro that no page has: .%s' % macro)
