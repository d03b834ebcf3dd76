/* SPDX-License-Identifier: BSD-3-Clause */
/* Text as JSON. Bytes above 0x7f go through as they are: what is UTF-8 stays so. */
#include "tools/common/tool_json.h"

void tool_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}
