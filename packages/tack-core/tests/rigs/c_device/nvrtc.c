// NVRTC's entry points: its "cubin" is an object for the host, made by the compiler that Python calls.
#include "image.h"

enum { NVRTC_BAD_INPUT = 3, NVRTC_BAD_PROGRAM = 4, NVRTC_BAD_OPTION = 5, NVRTC_REJECTED = 6 };

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
const char* nvrtcGetErrorString(int status) {
    static const char* const words[] = {
        "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
        "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
    };
    return status >= 0 && status <= NVRTC_REJECTED ? words[status] : "NVRTC_ERROR unknown";
}
int nvrtcCreateProgram(program** out, const char* text, const char* name, int headers, const char* const* contents, const char* const* names) {
    if (!out || !text || headers || contents || names) return NVRTC_BAD_INPUT;
    return *out = new_program(text, name), 0;
}
int nvrtcDestroyProgram(program** p) {
    if (!p || !*p) return NVRTC_BAD_PROGRAM;
    drop_program(*p);
    return *p = NULL, 0;
}
int nvrtcCompileProgram(program* p, int count, const char* const* options) {
    static const char* const known[] = {"--gpu-architecture=sm_", "--fmad=", "--ftz=", "--prec-div=", "--prec-sqrt=", "--std=c++17", "--minimal", "--split-compile="};
    for (int i = 0; i < count; i++) {
        unsigned found = 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) found |= !strncmp(options[i], known[k], strlen(known[k]));
        if (!found) return NVRTC_BAD_OPTION;
    }
    return compile(p, "cuda") ? NVRTC_REJECTED : 0;
}
// Sizes of texts count the NUL.
int nvrtcGetProgramLogSize(program* p, size_t* out) { return *out = p->log ? strlen(p->log) + 1 : 1, 0; }
int nvrtcGetProgramLog(program* p, char* out) { return strcpy(out, p->log ? p->log : ""), 0; }
int nvrtcGetCUBINSize(program* p, size_t* out) { return *out = p->image.size, p->image.data ? 0 : NVRTC_BAD_PROGRAM; }
int nvrtcGetCUBIN(program* p, char* out) {
    if (!p->image.data) return NVRTC_BAD_PROGRAM;
    return memcpy(out, p->image.data, p->image.size), 0;
}
