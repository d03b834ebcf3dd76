/* SPDX-License-Identifier: BSD-3-Clause */
/* The two tables of doc/memory.md, read from the page. */
#ifndef SELVAGE_TESTS_MEMORY_PAGE_H
#define SELVAGE_TESTS_MEMORY_PAGE_H

enum { PAGE_ROWS_MAX = 24, PAGE_CELLS = 4, PAGE_CELL_BYTES = 160 };

typedef struct page_row {
    char cell[PAGE_CELLS][PAGE_CELL_BYTES]; /* the first without its backquotes and what follows them */
} page_row_t;

typedef struct memory_page {
    page_row_t memory[PAGE_ROWS_MAX], kind[PAGE_ROWS_MAX];
    unsigned nmemory, nkind;
} memory_page_t;

/* Columns. */
enum { MEMORY_SOFT = 1, MEMORY_NVIDIA, MEMORY_AMD };
enum { KIND_PACKETS = 1, KIND_RECEIVE, KIND_REGISTER };

/* 0 if both tables were found. */
int memory_page_read(const char *path, memory_page_t *page);

#endif
