/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A circular doubly linked list whose links live inside the elements. It allocates nothing and has no lock: one thread
 * at a time.
 */
#ifndef SV_BASE_LIST_H
#define SV_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sv_list {
    struct sv_list *next, *prev;
} sv_list_t;

static inline void sv_list_init(sv_list_t *head)
{
    head->next = head->prev = head;
}

static inline bool sv_list_is_empty(const sv_list_t *head)
{
    return head->next == head;
}

/* Appends an element that is on no list. Partner: sv_list_remove(). */
static inline void sv_list_append(sv_list_t *head, sv_list_t *element)
{
    element->prev = head->prev;
    element->next = head;
    head->prev->next = element;
    head->prev = element;
}

/* Takes an element out and leaves it on no list; harmless if it is on none already. */
static inline void sv_list_remove(sv_list_t *element)
{
    element->prev->next = element->next;
    element->next->prev = element->prev;
    element->next = element->prev = element;
}

#define SV_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Walks a list; the element at hand may be removed meanwhile. */
#define SV_LIST_FOR_EACH(it, safe, head) \
    for ((it) = (head)->next, (safe) = (it)->next; (it) != (head); (it) = (safe), (safe) = (it)->next)

#endif
