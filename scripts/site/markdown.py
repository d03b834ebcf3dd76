# SPDX-License-Identifier: BSD-3-Clause
"""Markdown as the pages of this tree are written, to HTML: headings, paragraphs, lists, tables, code, links, emphasis.

Anchors of headings are those that forges make, so that links which work there work here.
"""
import html
import re

SPAN = re.compile(r'(?P<ticks>`+)(?P<code>.+?)(?P=ticks)|\[(?P<text>(?:[^][]|\[[^]]*\])*)\]\((?P<url>[^()\s]+)\)'
                  r'|\*\*(?P<strong>.+?)\*\*|(?<!\w)\*(?P<em>[^*\s](?:[^*]*[^*\s])?)\*(?!\w)'
                  r'|\\(?P<escaped>[\\`*_|<>#-])', re.S)
ITEM = re.compile(r'( *)([-*]|\d+\.)( +)')
RULE = re.compile(r'\|?(?: *:?-+:? *\|)* *:?-+:? *\|? *$')


def anchor(heading):
    return re.sub(r'[^a-z0-9_ -]', '', heading.lower()).replace(' ', '-')


class Page:
    """One page. link(url) gives the address of a link as it is in HTML, name(text) that of the page of a name in code,
    or None. Afterwards, title is the first heading, and body the HTML."""

    def __init__(self, text, link, name):
        self.link, self.name = link, name
        self.title, self.anchors, self.in_link = '', {}, False
        self.body = '\n'.join(self.blocks(text.split('\n')))

    def code(self, text):
        words = '<code>%s</code>' % html.escape(text.strip(), quote=False)
        page = None if self.in_link else self.name(text.strip())
        return '<a href="%s">%s</a>' % (page, words) if page else words

    def span(self, match):
        if match['code']:
            return self.code(match['code'])
        if match['url']:
            self.in_link = True
            words = self.inline(match['text'])
            self.in_link = False
            return '<a href="%s">%s</a>' % (html.escape(self.link(match['url'])), words)
        if match['strong']:
            return '<strong>%s</strong>' % self.inline(match['strong'])
        if match['em']:
            return '<em>%s</em>' % self.inline(match['em'])
        return html.escape(match['escaped'], quote=False)

    def inline(self, text):
        parts, at = [], 0
        for match in SPAN.finditer(text):
            parts += [html.escape(text[at:match.start()], quote=False), self.span(match)]
            at = match.end()
        return ''.join(parts + [html.escape(text[at:], quote=False)])

    def heading(self, line):
        marks, text = line.split(' ', 1)
        name = anchor(text.strip())
        again = self.anchors.get(name, 0)
        self.anchors[name] = again + 1
        self.title = self.title or re.sub(r'[`*]', '', text.strip())
        return '<h%d id="%s">%s</h%d>' % (len(marks), name + ('-%d' % again if again else ''),
                                          self.inline(text.strip()), len(marks))

    def table(self, lines):
        inside = [line.strip()[1:].removesuffix('|') for line in lines]
        rows = [[cell.strip().replace('\\|', '|') for cell in re.split(r'(?<!\\)\|', line)] for line in inside]
        for place, row in enumerate(rows):
            if place != 1:
                tag = 'td' if place else 'th'
                yield '<tr>%s</tr>' % ''.join('<%s>%s</%s>' % (tag, self.inline(cell), tag) for cell in row)

    def items(self, lines):
        """Lines of one list: its items, each with what is indented below it."""
        depth, item = len(ITEM.match(lines[0])[1]), []
        for line in lines:
            match = ITEM.match(line)
            if match and len(match[1]) == depth:
                if item:
                    yield item
                item, width = [line[match.end():]], match.end()
            else:
                item.append(line[min(width, len(line) - len(line.lstrip())):])
        yield item

    def list(self, lines):
        tag = 'ol' if ITEM.match(lines[0])[2][0].isdigit() else 'ul'
        yield '<%s>' % tag
        for item in self.items(lines):
            inside = '\n'.join(self.blocks(item))
            only = re.fullmatch(r'<p>((?:(?!<p>).)*)</p>(.*)', inside, re.S)
            yield '<li>%s</li>' % (only[1] + only[2] if only else inside)
        yield '</%s>' % tag

    def extent(self, lines, at):
        """Where the list that begins at a line ends: before the next line that is neither blank nor indented."""
        depth, end = len(ITEM.match(lines[at])[1]), at + 1
        for place in range(at + 1, len(lines)):
            line = lines[place]
            match = ITEM.match(line)
            blank_before = not lines[place - 1].strip()
            if not line.strip():
                continue
            if match and len(match[1]) >= depth or line.startswith(' ' * (depth + 2)):
                end = place + 1
            elif blank_before or re.match(r'#+ |```|\|', line):
                break
            else:
                end = place + 1
        return end

    def blocks(self, lines):
        at = 0
        while at < len(lines):
            line, begin = lines[at], at
            at += 1
            if not line.strip():
                continue
            if line.startswith('```'):
                while at < len(lines) and not lines[at].startswith('```'):
                    at += 1
                yield '<pre>%s</pre>' % html.escape('\n'.join(lines[begin + 1:at]), quote=False)
                at += 1
            elif re.match(r'#+ ', line):
                yield self.heading(line)
            elif line.startswith('|') and at < len(lines) and RULE.match(lines[at]):
                while at < len(lines) and lines[at].startswith('|'):
                    at += 1
                yield '<table>\n%s\n</table>' % '\n'.join(self.table(lines[begin:at]))
            elif line.startswith('    '):
                while at < len(lines) and (lines[at].startswith('    ') or not lines[at].strip()):
                    at += 1
                text = '\n'.join(one[4:] for one in lines[begin:at]).rstrip()
                yield '<pre>%s</pre>' % html.escape(text, quote=False)
            elif ITEM.match(line):
                at = self.extent(lines, begin)
                yield from self.list(lines[begin:at])
            else:
                while at < len(lines) and lines[at].strip() and not re.match(r'#+ |```|\|', lines[at]) \
                        and not ITEM.match(lines[at]):
                    at += 1
                yield '<p>%s</p>' % self.inline('\n'.join(lines[begin:at]))
