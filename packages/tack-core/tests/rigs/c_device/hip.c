// The HIP runtime's entry points that the backend calls, over `gpu.h`. Device 0 is current on every thread from the start.
#include "gpu.h"

#define ENTER_HIP(needs_context) \
    if (current_device < 0) current_device = 0; \
    ENTER(needs_context)

int hipInit(unsigned flags) {
    if (flags) return BAD_VALUE;
    if (!device_count) return BAD_DEVICE;
    initialised = 1;
    return OK;
}
int hipGetDeviceCount(int* out) { ENTER_HIP(0) return *out = device_count, device_count ? OK : NO_DEVICE; }
int hipRuntimeGetVersion(int* out) { return *out = 60342133, OK; }
static int known_device(int device) { return device >= 0 && device < most_devices ? OK : refuse(BAD_DEVICE, "no such device"); }
int hipDeviceGet(int* out, int number) { ENTER_HIP(0) return *out = number, known_device(number); }
int hipDeviceGetName(char* out, int room, int device) {
    ENTER_HIP(0)
    if (known_device(device)) return BAD_DEVICE;
    strncpy(out, "Tack's HIP rig", (size_t)room);
    return OK;
}
// Of the structure only the architecture, where ROCm 6 has it.
int hipGetDevicePropertiesR0600(char* out, int device) {
    ENTER_HIP(0)
    if (known_device(device)) return BAD_DEVICE;
    memset(out, 0, 1472);
    strcpy(out + 1160, "gfx90a:sramecc+:xnack-");
    return OK;
}
int hipDeviceGetAttribute(int* out, int attribute, int device) {
    ENTER_HIP(0)
    if (known_device(device)) return BAD_DEVICE;
    static const struct { int attribute, value; } known[] = {
        {29, 0x7fffffff}, {56, MOST_BLOCK}, {63, 4}, {74, 65536}, {87, 64}, {88, 1}, {10014, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) return *out = known[i].value, OK;
    return refuse(BAD_VALUE, "an attribute that the rig does not know");
}
int hipSetDevice(int device) {
    ENTER_HIP(0)
    return known_device(device) ? BAD_DEVICE : (current_device = device, OK);
}
int hipGetDevice(int* out) { ENTER_HIP(0) return *out = current_device, OK; }
int hipDeviceSynchronize(void) { ENTER_HIP(1) return settle_device(); }

int hipDeviceGetDefaultMemPool(void** out, int device) {
    ENTER_HIP(0)
    static void* pools[MOST_DEVICES];
    if (known_device(device)) return BAD_DEVICE;
    if (!pools[device]) pools[device] = new_handle(POOL, pools);
    return *out = pools[device], OK;
}
int hipMemPoolSetAttribute(void* pool, int attribute, void* value) {
    ENTER_HIP(0)
    return object_of(pool, POOL) && attribute == 4 && value ? OK : refuse(BAD_VALUE, "no such pool or attribute");
}
int hipMallocAsync(uint64_t* out, size_t bytes, void* stream) { ENTER_HIP(1) ON(stream) (void)on; return allocate(out, bytes); }
int hipFreeAsync(uint64_t address, void* stream) { ENTER_HIP(1) return free_later(address, stream); }
int hipHostMalloc(void** out, size_t bytes, unsigned flags) { ENTER_HIP(1) (void)flags; return allocate_pinned(out, bytes); }
int hipHostFree(void* p) { ENTER_HIP(1) return free_pinned(p); }
int hipMemGetInfo(size_t* left, size_t* all) { ENTER_HIP(1) return *all = memory_limit, *left = memory_limit - memory_used, OK; }
int hipMemsetD8Async(uint64_t to, unsigned char value, size_t count, void* stream) { ENTER_HIP(1) return fill(to, value, 1, count, stream); }
int hipMemsetD16Async(uint64_t to, unsigned short value, size_t count, void* stream) { ENTER_HIP(1) return fill(to, value, 2, count, stream); }
int hipMemsetD32Async(uint64_t to, int value, size_t count, void* stream) { ENTER_HIP(1) return fill(to, (unsigned)value, 4, count, stream); }
int hipMemcpyHtoDAsync(uint64_t to, const void* from, size_t bytes, void* stream) {
    ENTER_HIP(1)
    return copy(to, (uint64_t)(uintptr_t)from, bytes, HOST_TO_DEVICE, stream);
}
int hipMemcpyDtoHAsync(void* to, uint64_t from, size_t bytes, void* stream) {
    ENTER_HIP(1)
    return copy((uint64_t)(uintptr_t)to, from, bytes, DEVICE_TO_HOST, stream);
}
int hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    ENTER_HIP(1)
    return copy(to, from, bytes, DEVICE_TO_DEVICE, stream);
}

int hipStreamCreateWithFlags(void** out, unsigned flags) { ENTER_HIP(1) return flags > 1 ? BAD_VALUE : make_stream(out, !flags); }
int hipStreamDestroy(void* stream) { ENTER_HIP(1) return drop_stream(stream); }
int hipStreamSynchronize(void* stream) { ENTER_HIP(1) return wait_for(stream); }
int hipStreamQuery(void* stream) { ENTER_HIP(1) return ask(stream); }
int hipStreamWaitEvent(void* stream, void* event, unsigned flags) { ENTER_HIP(1) return flags ? BAD_VALUE : stream_waits(stream, event); }
int hipEventCreateWithFlags(void** out, unsigned flags) { ENTER_HIP(1) return flags & ~7u ? BAD_VALUE : make_event(out); }
int hipEventDestroy(void* event) { ENTER_HIP(1) return drop_event(event); }
int hipEventRecord(void* event, void* stream) { ENTER_HIP(1) return record(event, stream); }
int hipEventSynchronize(void* event) { ENTER_HIP(1) return event_waits(event); }
int hipEventQuery(void* event) { ENTER_HIP(1) return event_asks(event); }
int hipEventElapsedTime(float* out, void* first, void* second) { ENTER_HIP(1) return elapsed(out, first, second); }

int hipModuleLoadData(void** out, const void* image) {
    void* table = NULL;
    int status = load_image(&table, image);
    ENTER_HIP(1)
    return status ? refuse(status, "no image of the rig's compiler") : add_module(out, table);
}
int hipModuleUnload(void* module) { ENTER_HIP(1) return drop_module(module); }
int hipModuleGetFunction(void** out, void* module, const char* name) { ENTER_HIP(1) return find_function(out, module, name); }
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* stream, void** arguments, void** extra) {
    ENTER_HIP(1)
    if (shared) return refuse(BAD_VALUE, "dynamic shared memory, which generated kernels do not use");
    if ((uint64_t)gx * bx > 0xffffffffu || (uint64_t)gy * by > 0xffffffffu || (uint64_t)gz * bz > 0xffffffffu)
        return refuse(BAD_VALUE, "a grid of 2**32 threads or more");
    return launch(function, (rig_id){gx, gy, gz}, (rig_id){bx, by, bz}, stream, arguments, extra);
}

static const struct { int code; const char *name, *text; } words[] = {
    {OK, "hipSuccess", "no error"},
    {BAD_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {NO_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {NOT_INITIALISED, "hipErrorNotInitialized", "initialization error"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {BAD_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {BAD_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {BAD_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
    {BAD_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {NOT_READY, "hipErrorNotReady", "device not ready"},
    {ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {NO_RESOURCES, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {MISALIGNED, "hipErrorInvalidValue", "misaligned address"},
    {LAUNCH_FAILED, "hipErrorLaunchFailure", "unspecified launch failure"},
};
const char* hipGetErrorName(int code) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].code == code) return words[i].name;
    return "hipErrorUnknown";
}
// The rig says in brackets what it refused.
const char* hipGetErrorString(int code) {
    static __thread char text[512];
    strcpy(text, "unknown error");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].code == code) strcpy(text, words[i].text);
    if (last_refusal[0]) strcat(strcat(strcat(text, " [rig: "), last_refusal), "]");
    return text;
}
