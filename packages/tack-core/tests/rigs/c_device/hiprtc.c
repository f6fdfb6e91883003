// hipRTC's entry points: its code object is an object for the host, made by the compiler that Python calls.
#include "image.h"

enum { BAD_INPUT = 3, BAD_PROGRAM = 4, REJECTED = 6 };

int hiprtcVersion(int* major, int* minor) { return *major = 9, *minor = 0, 0; }
const char* hiprtcGetErrorString(int status) {
    static const char* const words[] = {
        "HIPRTC_SUCCESS", "HIPRTC_ERROR_OUT_OF_MEMORY", "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE", "HIPRTC_ERROR_INVALID_INPUT",
        "HIPRTC_ERROR_INVALID_PROGRAM", "HIPRTC_ERROR_INVALID_OPTION", "HIPRTC_ERROR_COMPILATION",
    };
    return status >= 0 && status <= REJECTED ? words[status] : "HIPRTC_ERROR_UNKNOWN";
}
int hiprtcCreateProgram(program** out, const char* text, const char* name, int headers, const char** contents, const char** names) {
    if (!out || !text || headers || contents || names) return BAD_INPUT;
    return *out = new_program(text, name), 0;
}
int hiprtcDestroyProgram(program** p) {
    if (!p || !*p) return BAD_PROGRAM;
    drop_program(*p);
    return *p = NULL, 0;
}
// The real one takes any option in silence, so the rig looks at those that must be there.
int hiprtcCompileProgram(program* p, int count, const char** options) {
    int architecture = 0, contraction = 0;
    for (int i = 0; i < count; i++) {
        architecture += !strncmp(options[i], "--offload-arch=gfx", 18);
        contraction += !strcmp(options[i], "-ffp-contract=on");
    }
    if (architecture != 1 || contraction != 1 || count != 2) return BAD_INPUT;
    return compile(p, "hip") ? REJECTED : 0;
}
int hiprtcGetProgramLogSize(program* p, size_t* out) { return *out = p->log ? strlen(p->log) + 1 : 1, 0; }
int hiprtcGetProgramLog(program* p, char* out) { return strcpy(out, p->log ? p->log : ""), 0; }
int hiprtcGetCodeSize(program* p, size_t* out) { return *out = p->image.size, p->image.data ? 0 : BAD_PROGRAM; }
int hiprtcGetCode(program* p, char* out) {
    if (!p->image.data) return BAD_PROGRAM;
    return memcpy(out, p->image.data, p->image.size), 0;
}
