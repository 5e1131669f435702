/* Reads what an engine needs of a GGUF file: gguf_reader PATH
 *
 * The number of layers from the metadata, the data of a tensor without a copy, the vocabulary. */
#include <stdio.h>
#include <stdlib.h>

#include "weighbridge.h"

static int read_model(const wb_model *model) {
    wb_tensor *tensor = NULL;
    wb_str *tokens;
    wb_value value;
    const void *data;
    size_t len;
    int status = wb_metadata_find(model, "general.architecture", &value);
    if (status == WB_OK) {
        char key[256];
        snprintf(key, sizeof key, "%.*s.block_count", (int)value.string.len, value.string.data);
        status = wb_metadata_find(model, key, &value);
    }
    if (status != WB_OK) {
        return status;
    }
    printf("%ld layers\n", (long)value.integer);

    status = wb_model_stored_tensor(model, "blk.0.attn_q.weight", &tensor);
    if (status == WB_OK) {
        status = wb_tensor_data(tensor, NULL, &data, &len);
    }
    if (status == WB_OK) {
        printf("blk.0.attn_q.weight: %lu bytes, the first is %u\n", (unsigned long)len,
               len > 0 ? *(const unsigned char *)data : 0u);
    }
    wb_tensor_free(tensor);
    if (status != WB_OK) {
        return status;
    }

    status = wb_metadata_find(model, "tokenizer.ggml.tokens", &value);
    if (status != WB_OK) {
        return status;
    }
    tokens = (wb_str *)malloc((size_t)value.count * sizeof *tokens + 1);
    if (tokens == NULL) {
        return WB_IO;
    }
    status = wb_metadata_strings(model, "tokenizer.ggml.tokens", tokens, (size_t)value.count);
    if (status == WB_OK && value.count > 0) {
        printf("%lu tokens, the last is \"%.*s\"\n", (unsigned long)value.count,
               (int)tokens[value.count - 1].len, tokens[value.count - 1].data);
    }
    free(tokens);
    return status;
}

int main(int argc, char **argv) {
    wb_model *model = NULL;
    int status;
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return WB_USAGE;
    }
    status = wb_open(argv[1], NULL, &model);
    if (status == WB_OK) {
        status = read_model(model);
    }
    if (status != WB_OK) {
        fprintf(stderr, "error: %s\n", wb_error_message());
    }
    wb_model_free(model);
    return status;
}
