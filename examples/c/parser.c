/* Reads a GGUF file through gguf.h: parser PATH */
#include <stdio.h>

#include "gguf.h"

int main(int argc, char **argv) {
    GGUFFile file = gguf_open(argc > 1 ? argv[1] : "");
    const GGUFMetadataKV *kv;
    const GGUFTensorInfo *info;
    const char **tokens;
    const void *data;
    uint64_t count = 0;
    if (file == NULL) {
        fprintf(stderr, "error: %s\n", wb_error_message());
        return 1;
    }
    kv = gguf_get_metadata(file, "llama.block_count");
    info = gguf_get_tensor(file, "blk.0.attn_q.weight");
    data = info == NULL ? NULL : gguf_tensor_data(file, info);
    tokens = gguf_get_string_array(file, "tokenizer.ggml.tokens", &count);
    if (kv == NULL || data == NULL || tokens == NULL || gguf_get_tensor(file, "absent") != NULL) {
        gguf_close(file);
        return 1;
    }
    printf("%u layers, %lu tensors, %lu keys\n", kv->value.u32, (unsigned long)gguf_tensor_count(file),
           (unsigned long)gguf_metadata_count(file));
    printf("%s: type %u, %lu x %lu, at %lu, first byte %u\n", info->name, info->dtype,
           (unsigned long)info->dims[0], (unsigned long)info->dims[1], (unsigned long)info->offset,
           *(const unsigned char *)data);
    printf("%lu tokens, the last is \"%s\"\n", (unsigned long)count, tokens[count - 1]);
    kv = gguf_get_metadata(file, "llama.attention.layer_norm_rms_epsilon");
    printf("eps %g, %s scores\n", kv == NULL ? 0.0 : (double)kv->value.f32,
           gguf_get_float_array(file, "tokenizer.ggml.scores", &count) == NULL ? "no" : "with");
    gguf_close(file);
    return 0;
}
