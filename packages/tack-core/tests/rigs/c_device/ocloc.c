// A stand-in for Intel's offline compiler, libocloc: its SPIR-V is an object for the host (`spirv.h`).
#include "spirv.h"

#include <stdlib.h>
#include <string.h>

enum { REJECTED = -11, BAD_COMMAND = -5150, MOST = 4 };
typedef struct {
    unsigned count;
    uint8_t* data[MOST];
    uint64_t sizes[MOST];
    char* names[MOST];
} files;

static void put(files* made, const char* name, const void* head, size_t head_size, const char* data, size_t size) {
    size_t whole = (head_size + size + 3) / 4 * 4;
    uint8_t* bytes = calloc(1, whole + 1);
    memcpy(bytes, head, head_size);
    memcpy(bytes + head_size, data, size);
    made->data[made->count] = bytes;
    made->sizes[made->count] = head_size ? whole : size;
    made->names[made->count++] = strdup(name);
}

// The words that Tack uses, and options of OpenCL C that keep every value.
static int is_known(unsigned count, const char** words) {
    if (count != 9 || strcmp(words[0], "ocloc") || strcmp(words[1], "compile") || strcmp(words[2], "-file")) return 0;
    if (strcmp(words[4], "-device") || strncmp(words[5], "0x", 2) || strcmp(words[6], "-spv_only")) return 0;
    return !strcmp(words[7], "-options") && !strcmp(words[8], "-cl-std=CL2.0 -cl-fp32-correctly-rounded-divide-sqrt");
}

int oclocInvoke(unsigned count, const char** words, uint32_t sources, const uint8_t** data, const uint64_t* sizes,
                const char** names, uint32_t headers, const uint8_t** header_data, const uint64_t* header_sizes,
                const char** header_names, uint32_t* outputs, uint8_t*** out_data, uint64_t** out_sizes, char*** out_names) {
    (void)header_data, (void)header_sizes, (void)header_names;
    files* made = calloc(1, sizeof *made);
    *out_data = made->data, *out_sizes = made->sizes, *out_names = made->names;
    int status = BAD_COMMAND;
    // One text, of the name that the command gives, with a zero at its end.
    if (is_known(count, words) && sources == 1 && !headers && !strcmp(names[0], words[3]) && !data[0][sizes[0] - 1]) {
        rig_bytes found = {NULL, 0};
        status = rig_compile("opencl", (const char*)data[0], &found) ? REJECTED : 0;
        spirv head = {SPIRV_MAGIC, 0x10000, 0, 1, 0, (unsigned)found.size};
        if (status == 0) put(made, "kernel_rig.spv", &head, sizeof head, found.data, found.size);
        else put(made, "stdout.log", NULL, 0, found.data, found.size);
        free(found.data);
    }
    *outputs = made->count;
    return status;
}

int oclocFreeOutput(uint32_t* outputs, uint8_t*** data, uint64_t** sizes, char*** names) {
    for (unsigned i = 0; i < *outputs; i++) {
        free((*data)[i]);
        free((*names)[i]);
    }
    free((char*)*data - offsetof(files, data));
    *outputs = 0;
    *data = NULL, *sizes = NULL, *names = NULL;
    return 0;
}
