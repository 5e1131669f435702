/* Loads all tensors as F16 into memory of this program, with q, k and v fused: load PATH */
#include <stdio.h>
#include <stdlib.h>

#include "weighbridge.h"

/* The memory of an engine: here one block, from which buffers are taken in turn. */
struct arena {
    unsigned char *base;
    size_t used, size;
};

static void *take(void *user, size_t bytes, size_t alignment) {
    struct arena *arena = user;
    size_t start = (size_t)(arena->base + arena->used) % alignment;
    start = arena->used + (start ? alignment - start : 0);
    if (start > arena->size || bytes > arena->size - start) {
        return NULL;
    }
    arena->used = start + bytes;
    return arena->base + start;
}

static int32_t show(void *user, uint64_t done, uint64_t total) {
    (void)user;
    (void)done;
    (void)total;
    return 0; /* another value cancels */
}

int main(int argc, char **argv) {
    wb_load_options options = {0};
    struct arena arena = {NULL, 0, 0};
    wb_weights *weights = NULL;
    wb_model *model = NULL;
    size_t i;
    int status;
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return WB_USAGE;
    }
    status = wb_open(argv[1], NULL, &model);
    if (status == WB_OK) {
        arena.size = (size_t)wb_model_stored_bytes(model) * 8 + (1 << 20);
        arena.base = malloc(arena.size);
        options.size = sizeof options;
        options.dtype = WB_F16;
        options.fuse = "qkv";
        options.user = &arena;
        options.progress = show;
        options.allocate = take;
        status = arena.base ? wb_load(model, &options, &weights) : WB_IO;
    }
    if (status != WB_OK) {
        fprintf(stderr, "error: %s\n", wb_error_message());
    }
    for (i = 0; i < wb_weights_count(weights); i++) {
        wb_buffer buffer;
        if (wb_weights_at(weights, i, &buffer) == WB_OK) {
            printf("%.*s: %lu bytes\n", (int)buffer.name.len, buffer.name.data,
                   (unsigned long)buffer.bytes);
        }
    }
    wb_weights_free(weights);
    wb_model_free(model);
    free(arena.base);
    return status;
}
