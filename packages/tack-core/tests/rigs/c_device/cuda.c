// The CUDA driver's entry points that the backend calls, over `gpu.h`.
#include "gpu.h"

int cuInit(unsigned flags) {
    if (flags) return BAD_VALUE;
    if (!device_count) return NO_DEVICE;
    initialised = 1;
    return OK;
}
int cuDriverGetVersion(int* out) { return *out = 13000, OK; }
// The real NVRTC finds this library by its name, asks it for NVIDIA's inner tables, and crashes where nobody answers.
int cuGetExportTable(const void** table, const void* id) { return (void)id, *table = NULL, NOT_FOUND; }
int cuDeviceGetCount(int* out) { ENTER(0) return *out = device_count, OK; }
int cuDeviceGet(int* out, int number) {
    ENTER(0)
    if (number < 0 || number >= device_count) return refuse(BAD_DEVICE, "no such device");
    return *out = number, OK;
}
int cuDeviceGetName(char* out, int room, int device) {
    ENTER(0)
    if (device < 0 || device >= device_count) return refuse(BAD_DEVICE, "no such device");
    strncpy(out, "Tack's CUDA rig", (size_t)room);
    return OK;
}
int cuDeviceGetAttribute(int* out, int attribute, int device) {
    ENTER(0)
    if (device < 0 || device >= device_count) return refuse(BAD_DEVICE, "no such device");
    static const struct { int attribute, value; } known[] = {
        {1, MOST_BLOCK}, {2, MOST_BLOCK}, {3, MOST_BLOCK}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535},
        {8, 49152}, {10, 32}, {12, 65536}, {16, 4}, {38, 1 << 20}, {39, 2048}, {41, 1}, {75, 9}, {76, 0}, {81, 233472},
        {82, 65536}, {97, 232448}, {115, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) return *out = known[i].value, OK;
    return refuse(BAD_VALUE, "an attribute that the rig does not know");
}
int cuDeviceTotalMem_v2(size_t* out, int device) { ENTER(0) (void)device; return *out = memory_limit, OK; }

// The contexts are the devices' primary ones: handles made once.
static void* contexts[MOST_DEVICES];
static int device_of(void* context) {
    for (int i = 0; i < MOST_DEVICES; i++)
        if (context && contexts[i] == context) return i;
    return -1;
}
int cuDevicePrimaryCtxRetain(void** out, int device) {
    ENTER(0)
    if (device < 0 || device >= device_count) return refuse(BAD_DEVICE, "no such device");
    if (!contexts[device]) contexts[device] = new_handle(CONTEXT, contexts);
    return *out = contexts[device], OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) { ENTER(0) (void)device; return OK; }
int cuCtxSetCurrent(void* context) {
    ENTER(0)
    if (context && device_of(context) < 0) return refuse(BAD_CONTEXT, "no such context");
    return current_device = device_of(context), OK;
}
int cuCtxGetCurrent(void** out) { ENTER(0) return *out = current_device < 0 ? NULL : contexts[current_device], OK; }
int cuCtxGetDevice(int* out) { ENTER(1) return *out = current_device, OK; }
int cuCtxSynchronize(void) { ENTER(1) return settle_device(); }

int cuDeviceGetDefaultMemPool(void** out, int device) {
    ENTER(0)
    static void* pools[MOST_DEVICES];
    if (device < 0 || device >= device_count) return refuse(BAD_DEVICE, "no such device");
    if (!pools[device]) pools[device] = new_handle(POOL, pools);
    return *out = pools[device], OK;
}
int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
    ENTER(0)
    return object_of(pool, POOL) && attribute == 4 && value ? OK : refuse(BAD_VALUE, "no such pool or attribute");
}
int cuMemPoolTrimTo(void* pool, size_t bytes) { ENTER(0) (void)bytes; return object_of(pool, POOL) ? OK : BAD_VALUE; }
int cuMemAllocAsync(uint64_t* out, size_t bytes, void* stream) { ENTER(1) ON(stream) (void)on; return allocate(out, bytes); }
int cuMemAlloc_v2(uint64_t* out, size_t bytes) { ENTER(1) return allocate(out, bytes); }
int cuMemFreeAsync(uint64_t address, void* stream) { ENTER(1) return free_later(address, stream); }
int cuMemFree_v2(uint64_t address) { ENTER(1) return free_now(address); }
int cuMemHostAlloc(void** out, size_t bytes, unsigned flags) { ENTER(1) (void)flags; return allocate_pinned(out, bytes); }
int cuMemAllocHost_v2(void** out, size_t bytes) { ENTER(1) return allocate_pinned(out, bytes); }
int cuMemFreeHost(void* p) { ENTER(1) return free_pinned(p); }
int cuMemGetInfo_v2(size_t* left, size_t* all) { ENTER(1) return *all = memory_limit, *left = memory_limit - memory_used, OK; }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void* stream) { ENTER(1) return fill(to, value, 1, count, stream); }
int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, void* stream) { ENTER(1) return fill(to, value, 2, count, stream); }
int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void* stream) { ENTER(1) return fill(to, value, 4, count, stream); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    ENTER(1)
    return copy(to, (uint64_t)(uintptr_t)from, bytes, HOST_TO_DEVICE, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    ENTER(1)
    return copy((uint64_t)(uintptr_t)to, from, bytes, DEVICE_TO_HOST, stream);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    ENTER(1)
    return copy(to, from, bytes, DEVICE_TO_DEVICE, stream);
}

int cuStreamCreate(void** out, unsigned flags) { ENTER(1) return flags > 1 ? BAD_VALUE : make_stream(out, !flags); }
int cuStreamDestroy_v2(void* stream) { ENTER(1) return drop_stream(stream); }
int cuStreamSynchronize(void* stream) { ENTER(1) return wait_for(stream); }
int cuStreamQuery(void* stream) { ENTER(1) return ask(stream); }
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) { ENTER(1) return flags ? BAD_VALUE : stream_waits(stream, event); }
int cuEventCreate(void** out, unsigned flags) { ENTER(1) return flags & ~7u ? BAD_VALUE : make_event(out); }
int cuEventDestroy_v2(void* event) { ENTER(1) return drop_event(event); }
int cuEventRecord(void* event, void* stream) { ENTER(1) return record(event, stream); }
int cuEventSynchronize(void* event) { ENTER(1) return event_waits(event); }
int cuEventQuery(void* event) { ENTER(1) return event_asks(event); }
int cuEventElapsedTime(float* out, void* first, void* second) { ENTER(1) return elapsed(out, first, second); }

int cuModuleLoadData(void** out, const void* image) {
    void* table = NULL;
    int status = load_image(&table, image);
    ENTER(1)
    return status ? refuse(status, "no image of the rig's compiler") : add_module(out, table);
}
int cuModuleUnload(void* module) { ENTER(1) return drop_module(module); }
int cuModuleGetFunction(void** out, void* module, const char* name) { ENTER(1) return find_function(out, module, name); }
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
    ENTER(1)
    if (shared) return refuse(BAD_VALUE, "dynamic shared memory, which generated kernels do not use");
    return launch(function, (rig_id){gx, gy, gz}, (rig_id){bx, by, bz}, stream, arguments, extra);
}

static const struct { int code; const char *name, *text; } words[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {BAD_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALISED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {BAD_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {BAD_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {BAD_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {BAD_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NO_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {MISALIGNED, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};
int cuGetErrorName(int code, const char** out) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].code == code) return *out = words[i].name, OK;
    return *out = NULL, BAD_VALUE;
}
// The rig says in brackets what it refused.
int cuGetErrorString(int code, const char** out) {
    static __thread char text[512];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].code == code) {
            strcpy(text, words[i].text);
            if (last_refusal[0]) strcat(strcat(strcat(text, " [rig: "), last_refusal), "]");
            return *out = text, OK;
        }
    return *out = NULL, BAD_VALUE;
}
