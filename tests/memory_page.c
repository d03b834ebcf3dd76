/* SPDX-License-Identifier: BSD-3-Clause */
/* See memory_page.h. A table begins with its heading row and ends with the first line that is no row. */
#include "memory_page.h"

#include <stdio.h>
#include <string.h>

/* Cells between bars, without the blanks around them; of the first what stands between its first backquotes. */
static void split(const char *line, page_row_t *row)
{
    memset(row, 0, sizeof *row);
    for (int i = 0; i < PAGE_CELLS && *line == '|'; i++) {
        line++;
        size_t length = strcspn(line, "|\n");
        const char *from = line, *to = line + length;
        while (from < to && *from == ' ')
            from++;
        while (to > from && to[-1] == ' ')
            to--;
        if (*from == '`') {
            from++;
            to = from + strcspn(from, "`");
        }
        snprintf(row->cell[i], sizeof row->cell[i], "%.*s", (int)(to - from), from);
        line += length;
    }
}

static void take(page_row_t *rows, unsigned *count, const char *line)
{
    if (*count < PAGE_ROWS_MAX && strncmp(line, "|---", 4) != 0)
        split(line, &rows[(*count)++]);
}

int memory_page_read(const char *path, memory_page_t *page)
{
    char line[1024];
    int table = 0;
    FILE *file = fopen(path, "r");
    memset(page, 0, sizeof *page);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "| memory |", 10) == 0)
            table = 1;
        else if (strncmp(line, "| kind |", 8) == 0)
            table = 2;
        else if (line[0] != '|')
            table = 0;
        else if (table == 1)
            take(page->memory, &page->nmemory, line);
        else if (table == 2)
            take(page->kind, &page->nkind, line);
    }
    if (file)
        fclose(file);
    return page->nmemory > 0 && page->nkind > 0 ? 0 : -1;
}
