// What a rig's compiler makes and its driver loads: a mark, the number of bytes that follow, and an object for the host.
#pragma once
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "rig.h"

static const char MARK[8] = "TACKRIG";

typedef struct {
    char *text, *log;
    rig_bytes image;
} program;

static program* new_program(const char* text, const char* name) {
    (void)name;
    program* made = calloc(1, sizeof *made);
    made->text = strdup(text);
    return made;
}
// 0, or the compiler's status; the image then has its words.
static int compile(program* p, const char* dialect) {
    rig_bytes out = {0};
    int status = rig_compile(dialect, p->text, &out);
    free(p->log);
    p->log = NULL;
    if (status) {
        p->log = out.data;
        return status;
    }
    uint64_t bytes = out.size;
    p->image.size = sizeof MARK + sizeof bytes + out.size;
    p->image.data = malloc(p->image.size);
    memcpy(p->image.data, MARK, sizeof MARK);
    memcpy(p->image.data + sizeof MARK, &bytes, sizeof bytes);
    memcpy(p->image.data + sizeof MARK + sizeof bytes, out.data, out.size);
    free(out.data);
    return 0;
}
static void drop_program(program* p) {
    free(p->text);
    free(p->log);
    free(p->image.data);
    free(p);
}
