// What the rig of Level Zero takes for SPIR-V: its header, and an object for the host behind it.
#pragma once
#include "rig.h"

enum { SPIRV_MAGIC = 0x07230203 };
typedef struct {
    unsigned magic, version, generator, bound, schema, bytes;
} spirv;
