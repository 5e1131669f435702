/* Calls every function: every ASSETS FOLDER */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weighbridge.h"

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,            \
                    wb_error_message() ? wb_error_message() : "no error");                \
            exit(77);                                                   \
        }                                                                                 \
    } while (0)
#define OK(call) CHECK((call) == WB_OK)

/* The structs of DLPack 1.0, as its specification lays them out. */
typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    dl_tensor tensor;
};

static char joined[4096];

static const char *in(const char *folder, const char *name) {
    snprintf(joined, sizeof joined, "%s/%s", folder, name);
    return joined;
}

static int is(wb_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.data, expected, text.len) == 0;
}

static int32_t cancel(void *user, uint64_t done, uint64_t total) {
    CHECK(done <= total);
    ++*(int *)user;
    return 1;
}

static int32_t go_on(void *user, uint64_t done, uint64_t total) {
    (void)user;
    return done > total;
}

static void *allocate(void *user, size_t bytes, size_t alignment) {
    unsigned char *memory = malloc(bytes + alignment + sizeof(void *));
    size_t start = (size_t)memory + sizeof(void *);
    void **place;
    ++*(int *)user;
    if (memory == NULL) {
        return NULL;
    }
    start += alignment - start % alignment;
    place = (void **)start;
    place[-1] = memory;
    return place;
}

static void *refuse(void *user, size_t bytes, size_t alignment) {
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void release(void *user, void *data, size_t bytes) {
    CHECK(bytes > 0);
    --*(int *)user;
    free(((void **)data)[-1]);
}

static int32_t norms(void *user, wb_str name) {
    (void)user;
    return name.len > 11 && memcmp(name.data + name.len - 11, "norm.weight", 11) == 0;
}

static void errors(const char *assets) {
    wb_open_options options = {0};
    wb_model *model = NULL;
    CHECK(wb_open(in(assets, "absent"), NULL, &model) == WB_NOT_FOUND && model == NULL);
    CHECK(strcmp(wb_error_kind(), "not_found") == 0 && strstr(wb_error_path(), "absent"));
    wb_model_free(NULL);
    wb_tensor_free(NULL);
    wb_weights_free(NULL);
    wb_string_free(NULL);
    CHECK(strstr(wb_error_message(), "absent") && wb_error_offset() == UINT64_MAX);
    CHECK(wb_error_tensor() == NULL && wb_error_key() == NULL);
    CHECK(wb_error_advice() == NULL || strlen(wb_error_advice()) > 0);
    CHECK(wb_open(NULL, NULL, &model) == WB_USAGE && strstr(wb_error_message(), "path is NULL"));
    CHECK(wb_open(in(assets, "hf"), NULL, NULL) == WB_USAGE);
    options.size = 1;
    CHECK(wb_open(in(assets, "hf"), &options, &model) == WB_USAGE);
    options.size = sizeof options;
    options.strictness = 9;
    CHECK(wb_open(in(assets, "hf"), &options, &model) == WB_USAGE);
    CHECK(wb_open_memory("none", "xx", 2, NULL, &model) == WB_INVALID);
    CHECK(wb_add_families("no such file") == WB_NOT_FOUND);
    CHECK(wb_model_tensor_count(NULL) == 0 && wb_model_stored_bytes(NULL) == 0);
    CHECK(wb_metadata_count(NULL) == 0 && wb_model_note_count(NULL) == 0);
    CHECK(is(wb_model_container(NULL), "") && is(wb_model_note(NULL, 0), ""));
    CHECK(is(wb_tensor_name(NULL), "") && is(wb_tensor_dtype(NULL), ""));
    CHECK(wb_tensor_shape(NULL, NULL) == 0 && wb_tensor_elements(NULL) == 0);
    CHECK(wb_tensor_rows(NULL) == 0 && wb_tensor_segment_count(NULL) == 0);
    CHECK(is(wb_tensor_why_computed(NULL), "") && wb_weights_count(NULL) == 0);
    wb_tokenizer_free(NULL);
    CHECK(wb_tokenizer_token_count(NULL) == 0 && wb_tokenizer_merge_count(NULL) == 0);
    CHECK(is(wb_tokenizer_kind(NULL), "") && is(wb_tokenizer_chat_template(NULL), ""));
    CHECK(wb_inspect(NULL, NULL) == WB_USAGE && wb_load(NULL, NULL, NULL) == WB_USAGE);
}

/* FOLDER/boreal is the sample as a model of a type that no built-in family describes. */
static void family(const char *folder) {
    wb_model *model = NULL;
    char path[4096], *json = NULL;
    FILE *file;
    OK(wb_open(in(folder, "boreal"), NULL, &model));
    OK(wb_inspect(model, &json));
    CHECK(strstr(json, "\"architecture\":null"));
    wb_string_free(json);
    wb_model_free(model);

    snprintf(path, sizeof path, "%s", in(folder, "boreal.family"));
    file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "[family boreal]\nhf boreal\nrope half_split\ntensors decoder\n");
    fclose(file);
    OK(wb_add_families(path));
    OK(wb_open(in(folder, "boreal"), NULL, &model));
    OK(wb_inspect(model, &json));
    CHECK(strstr(json, "\"architecture\":\"boreal\""));
    wb_string_free(json);
    wb_model_free(model);
    CHECK(wb_add_families(NULL) == WB_USAGE);
}

static void metadata(const wb_model *model) {
    wb_value value;
    wb_str *tokens;
    double *numbers;
    float *floats;
    int64_t *integers;
    size_t i, count = wb_metadata_count(model);
    CHECK(count > 10);
    for (i = 0; i < count; i++) {
        OK(wb_metadata_at(model, i, &value));
        CHECK(value.key.len > 0 && value.value_type <= 12);
    }
    CHECK(wb_metadata_at(model, count, &value) == WB_NOT_FOUND);
    OK(wb_metadata_find(model, "general.architecture", &value));
    CHECK(value.value_type == 8 && is(value.string, "llama") && isnan(value.number));
    OK(wb_metadata_find(model, "llama.embedding_length", &value));
    CHECK(value.integer == 256 && value.number == 256.0 && value.count == 1);
    CHECK(value.bits == 256 && value.value_type == WB_VALUE_U32 && value.data == NULL);
    CHECK(wb_metadata_find(model, "absent", &value) == WB_NOT_FOUND);
    CHECK(strcmp(wb_error_key(), "absent") == 0);
    CHECK(wb_metadata_position(model, "absent", &i) == WB_NOT_FOUND);
    OK(wb_metadata_position(model, "tokenizer.ggml.token_type", &i));
    OK(wb_metadata_at(model, i, &value));
    CHECK(is(value.key, "tokenizer.ggml.token_type") && value.data != NULL && value.bytes == 4 * 512);

    OK(wb_metadata_find(model, "tokenizer.ggml.tokens", &value));
    CHECK(value.value_type == 9 && value.element_type == 8 && value.count == 512);
    tokens = malloc(512 * sizeof *tokens);
    numbers = malloc(512 * sizeof *numbers);
    integers = malloc(512 * sizeof *integers);
    CHECK(tokens && numbers && integers);
    OK(wb_metadata_strings(model, "tokenizer.ggml.tokens", tokens, 512));
    CHECK(wb_metadata_strings(model, "tokenizer.ggml.tokens", tokens, 511) == WB_USAGE);
    CHECK(wb_metadata_strings(model, "tokenizer.ggml.tokens", NULL, 512) == WB_USAGE);
    CHECK(wb_metadata_numbers(model, "tokenizer.ggml.tokens", numbers, 512) == WB_USAGE);
    OK(wb_metadata_integers(model, "tokenizer.ggml.token_type", integers, 512));
    OK(wb_metadata_numbers(model, "tokenizer.ggml.token_type", numbers, 512));
    CHECK(numbers[511] == (double)integers[511]);
    floats = malloc(512 * sizeof *floats);
    CHECK(floats);
    OK(wb_metadata_floats(model, "tokenizer.ggml.token_type", floats, 512));
    CHECK(floats[511] == (float)numbers[511]);
    free(floats);
    for (i = 0; i < 512; i++) {
        CHECK(tokens[i].data != NULL);
    }
    free(tokens);
    free(numbers);
    free(integers);
}

static void config(const wb_model *model) {
    wb_field field;
    size_t i, count = 0;
    OK(wb_config_count(model, &count));
    CHECK(count > 10);
    for (i = 0; i < count; i++) {
        OK(wb_config_at(model, i, &field));
        CHECK(field.name.len > 0 && field.json.len > 0);
    }
    CHECK(wb_config_at(model, count, &field) == WB_NOT_FOUND);
    OK(wb_config_find(model, "dim", &field));
    CHECK(is(field.json, "256") && field.number == 256.0 && field.source.len > 0);
    CHECK(wb_config_find(model, "absent", &field) == WB_NOT_FOUND);
}

static void tensors(const char *assets, wb_model *model) {
    wb_tensor *tensor = NULL, *stored = NULL, *slice = NULL;
    struct DLManagedTensorVersioned *shared = NULL, *again = NULL;
    const uint64_t *shape = NULL;
    const void *data = NULL, *other = NULL;
    wb_segment segment;
    float *values, *rows;
    size_t i, count = 0, len = 0;
    wb_str name;
    OK(wb_model_name_count(model, &count));
    CHECK(count == 20 && wb_model_tensor_count(model) == 20);
    for (i = 0; i < count; i++) {
        OK(wb_model_name(model, i, &name));
        CHECK(name.len > 0);
    }
    CHECK(wb_model_name(model, count, &name) == WB_NOT_FOUND);
    CHECK(wb_model_tensor(model, "absent", &tensor) == WB_NOT_FOUND);
    CHECK(wb_model_stored_tensor_at(model, 20, &stored) == WB_NOT_FOUND);
    OK(wb_model_stored_tensor_at(model, 0, &stored));
    CHECK(wb_tensor_elements(stored) > 0);
    wb_tensor_free(stored);
    OK(wb_model_stored_tensor(model, "blk.1.attn_q.weight", &stored));
    OK(wb_model_tensor(model, "layers.1.attention.q.weight", &tensor));
    CHECK(is(wb_tensor_name(tensor), "layers.1.attention.q.weight"));
    CHECK(is(wb_tensor_dtype(tensor), "Q8_0") && wb_tensor_rows(tensor) == 256);
    CHECK(wb_tensor_shape(tensor, &shape) == 2 && shape[0] == 256 && shape[1] == 256);
    CHECK(wb_tensor_elements(tensor) == 65536 && is(wb_tensor_why_computed(tensor), ""));
    CHECK(wb_tensor_segment_count(tensor) == 1);
    OK(wb_tensor_segment(tensor, 0, &segment));
    CHECK(is(segment.part, "weight") && is(segment.name, "blk.1.attn_q.weight"));
    CHECK(is(segment.dtype, "Q8_0") && segment.rank == 2 && segment.shape[1] == 256);
    CHECK(segment.bytes == 65536 / 32 * 34 && segment.offset > 0 && segment.path.len > 0);
    CHECK(wb_tensor_segment(tensor, 1, &segment) == WB_NOT_FOUND);

    /* The rows of q are permuted in GGUF: the canonical tensor has them in order. */
    OK(wb_tensor_data(tensor, NULL, &data, &len));
    CHECK(len == 65536 / 32 * 34);
    OK(wb_tensor_data(tensor, "weight", &other, &len));
    CHECK(other == data);
    OK(wb_tensor_data(stored, NULL, &other, &len));
    CHECK(memcmp(data, other, len) != 0);
    CHECK(wb_tensor_data(tensor, "scale", &other, &len) == WB_NOT_FOUND);
    CHECK(strcmp(wb_error_tensor(), "layers.1.attention.q.weight") == 0);

    values = malloc(65536 * sizeof *values);
    rows = malloc(512 * sizeof *rows);
    CHECK(values && rows);
    OK(wb_tensor_dequantize(tensor, 0, 256, WB_F32, values, 65536 * sizeof *values));
    OK(wb_tensor_dequantize(tensor, 7, 9, WB_F32, rows, 512 * sizeof *rows));
    CHECK(memcmp(values + 7 * 256, rows, 512 * sizeof *rows) == 0);
    OK(wb_tensor_slice(tensor, 7, 9, &slice));
    CHECK(wb_tensor_rows(slice) == 2);
    memset(rows, 0, 512 * sizeof *rows);
    OK(wb_tensor_dequantize(slice, 0, 2, WB_F32, rows, 512 * sizeof *rows));
    CHECK(memcmp(values + 7 * 256, rows, 512 * sizeof *rows) == 0);
    OK(wb_tensor_dequantize(slice, 0, 2, WB_BF16, rows, 512 * 2));
    CHECK(wb_tensor_dequantize(slice, 0, 2, WB_F16, rows, 5) == WB_USAGE);
    CHECK(wb_tensor_dequantize(slice, 0, 3, WB_F16, rows, 768 * 2) == WB_USAGE);
    CHECK(wb_tensor_dequantize(slice, 0, 2, WB_STORED, rows, 1024) == WB_USAGE);
    CHECK(wb_tensor_dequantize(slice, 0, 2, WB_F32, NULL, 2048) == WB_USAGE);
    CHECK(wb_tensor_slice(slice, 0, 3, &slice) == WB_USAGE);
    wb_tensor_free(slice);

    OK(wb_tensor_dlpack(tensor, WB_F32, &shared));
    CHECK(shared->major == 1 && shared->tensor.ndim == 2 && shared->tensor.shape[0] == 256);
    CHECK(shared->tensor.code == 2 && shared->tensor.bits == 32 && shared->tensor.strides[0] == 256);
    CHECK(memcmp(shared->tensor.data, values, 65536 * sizeof *values) == 0);
    shared->deleter(shared);
    wb_tensor_free(tensor);
    wb_tensor_free(stored);
    free(values);
    free(rows);

    /* A file's memory is shared, and a write stays in this process. */
    wb_model_free(model);
    OK(wb_open(in(assets, "hf"), NULL, &model));
    OK(wb_model_tensor(model, "output_norm.weight", &tensor));
    wb_model_free(model);
    OK(wb_tensor_data(tensor, NULL, &data, &len));
    OK(wb_tensor_dlpack(tensor, WB_STORED, &shared));
    OK(wb_tensor_dlpack(tensor, WB_STORED, &again));
    wb_tensor_free(tensor);
    CHECK(shared->tensor.data == again->tensor.data && shared->tensor.code == 4);
    ((unsigned char *)shared->tensor.data)[0] ^= 0xff;
    shared->deleter(shared);
    again->deleter(again);
}

static void weights(const wb_model *model) {
    wb_load_options options = {0};
    wb_weights *loaded = NULL;
    wb_buffer buffer;
    int live = 0, calls = 0;
    OK(wb_load(model, NULL, &loaded));
    CHECK(wb_weights_count(loaded) == 20);
    OK(wb_weights_at(loaded, 19, &buffer));
    CHECK(buffer.members == 1 && buffer.rank >= 1 && (size_t)buffer.data % 64 == 0);
    CHECK(wb_weights_at(loaded, 20, &buffer) == WB_NOT_FOUND);
    wb_weights_free(loaded);

    options.size = sizeof options;
    options.dtype = WB_F16;
    options.fuse = "qkv,gate-up";
    options.threads = 2;
    options.user = &live;
    options.progress = go_on;
    options.allocate = allocate;
    options.release = release;
    OK(wb_load(model, &options, &loaded));
    CHECK(wb_weights_count(loaded) == 14 && live == 14);
    OK(wb_weights_at(loaded, 1, &buffer));
    CHECK(buffer.bytes >= buffer.weight_bytes && is(buffer.dtype, "F16"));
    wb_weights_free(loaded);
    CHECK(live == 0);

    options.fuse = "absent";
    CHECK(wb_load(model, &options, &loaded) == WB_USAGE);
    options.fuse = NULL;
    options.wanted = norms;
    OK(wb_load(model, &options, &loaded));
    CHECK(wb_weights_count(loaded) == 5);
    wb_weights_free(loaded);
    options.wanted = NULL;
    options.allocate = refuse;
    CHECK(wb_load(model, &options, &loaded) == WB_IO && live == 0);
    options.user = &calls;
    options.allocate = NULL;
    options.release = NULL;
    options.progress = cancel;
    CHECK(wb_load(model, &options, &loaded) == WB_CANCELLED && calls > 0);
    options.dtype = 9;
    CHECK(wb_load(model, &options, &loaded) == WB_USAGE);
    /* Options of an older program, which knows the first members alone. */
    options.size = offsetof(wb_load_options, fuse);
    options.dtype = WB_BF16;
    OK(wb_load(model, &options, &loaded));
    wb_weights_free(loaded);
}

static void split_and_merge(const char *folder, const wb_model *model) {
    wb_model *other = NULL;
    char *json = NULL;
    OK(wb_split(model, in(folder, "part"), 0, 8, NULL, &json));
    CHECK(strstr(json, "part-00003-of-00003.gguf"));
    wb_string_free(json);
    OK(wb_split(model, in(folder, "large"), 1000000, 0, NULL, NULL));
    CHECK(wb_split(model, in(folder, "none"), 0, 0, NULL, NULL) == WB_USAGE);
    OK(wb_open(in(folder, "part-00001-of-00003.gguf"), NULL, &other));
    CHECK(wb_model_tensor_count(other) == 20);
    OK(wb_merge(other, in(folder, "one.gguf"), 4096, NULL, &json));
    wb_string_free(json);
    OK(wb_merge(other, in(folder, "another.gguf"), 0, NULL, NULL));
    CHECK(wb_merge(other, in(folder, "one.gguf"), 0, NULL, NULL) == WB_USAGE);
    CHECK(wb_merge(other, in(folder, "two.gguf"), 3, NULL, NULL) == WB_USAGE);
    wb_model_free(other);
    OK(wb_open(in(folder, "one.gguf"), NULL, &other));
    OK(wb_diff(model, other, 0.0, NULL, NULL, NULL));
    wb_model_free(other);
}

static void create(const char *folder, const wb_model *model, const wb_write_options *options) {
    wb_create_options settings = {0};
    wb_model *other = NULL;
    char *json = NULL, store[4096], modelfile[4096];
    FILE *file;
    snprintf(store, sizeof store, "%s", in(folder, "store"));
    snprintf(modelfile, sizeof modelfile, "%s", in(folder, "Modelfile"));
    settings.size = sizeof settings;
    settings.store = store;
    settings.quantize = "int8";
    OK(wb_create(model, "tales:int8", &settings, options, &json));
    CHECK(strstr(json, "tales/int8"));
    wb_string_free(json);
    OK(wb_open(in(folder, "store/manifests/registry.ollama.ai/library/tales/int8"), NULL, &other));
    CHECK(is(wb_model_container(other), "ollama"));
    wb_model_free(other);
    CHECK(wb_create(model, "tales:int8", &settings, options, NULL) == WB_USAGE);
    settings.quantize = "absent";
    CHECK(wb_create(model, "x", &settings, options, NULL) == WB_USAGE);
    settings.quantize = NULL;
    CHECK(wb_create(NULL, "x", &settings, options, NULL) == WB_USAGE);
    file = fopen(modelfile, "w");
    CHECK(file != NULL);
    fprintf(file, "FROM %s\nSYSTEM Tell.\nPARAMETER temperature 0.5\n", in(folder, "one.gguf"));
    fclose(file);
    settings.modelfile = modelfile;
    OK(wb_create(NULL, "told", &settings, options, &json));
    CHECK(strstr(json, "told/latest"));
    wb_string_free(json);
}

static void tokenizer(const char *assets, const wb_model *model) {
    wb_tokenizer *found = NULL, *other = NULL;
    wb_model *alone = NULL;
    wb_token token;
    wb_str first, second;
    wb_value value;
    uint32_t id = 0;
    size_t i, count;
    int status;
    OK(wb_model_tokenizer(model, &found));
    count = wb_tokenizer_token_count(found);
    CHECK(count == 512 && wb_tokenizer_kind(found).len > 0);
    for (i = 0; i < count; i++) {
        OK(wb_tokenizer_token(found, (uint32_t)i, &token));
        CHECK(token.id == i && token.text.len > 0 && token.kind >= 1 && token.kind <= 6);
        CHECK(isnan(token.score) || isfinite(token.score));
    }
    CHECK(wb_tokenizer_token(found, 512, &token) == WB_NOT_FOUND);
    for (i = 0; i < wb_tokenizer_merge_count(found); i++) {
        OK(wb_tokenizer_merge(found, i, &first, &second));
        CHECK(first.len > 0 && second.len > 0);
    }
    CHECK(i > 0 && wb_tokenizer_merge(found, i, &first, &second) == WB_NOT_FOUND);
    CHECK(wb_tokenizer_merge(found, 0, &first, NULL) == WB_USAGE);
    OK(wb_metadata_find(model, "tokenizer.ggml.eos_token_id", &value));
    OK(wb_tokenizer_special(found, "eos", &id));
    CHECK(id == value.integer);
    CHECK(wb_tokenizer_special(found, "absent", &id) == WB_NOT_FOUND);
    CHECK(is(wb_tokenizer_chat_template(found), ""));
    CHECK(wb_model_tokenizer(model, NULL) == WB_USAGE);

    /* The same vocabulary beside the weights, whose spellings outlive the model. */
    OK(wb_open(in(assets, "hf"), NULL, &alone));
    OK(wb_model_tokenizer(alone, &other));
    wb_model_free(alone);
    CHECK(wb_tokenizer_token_count(other) == count);
    OK(wb_tokenizer_token(found, 300, &token));
    first = token.text;
    OK(wb_tokenizer_token(other, 300, &token));
    CHECK(first.len == token.text.len && memcmp(first.data, token.text.data, first.len) == 0);
    wb_tokenizer_free(other);
    wb_tokenizer_free(found);
    OK(wb_open(in(assets, "hf/model.safetensors"), NULL, &alone));
    status = wb_model_tokenizer(alone, &found);
    CHECK(status == WB_OK || status == WB_NOT_FOUND);
    if (status == WB_OK) {
        wb_tokenizer_free(found);
    }
    wb_model_free(alone);
}

static void stored(const wb_model *model) {
    const wb_tensor *tensor;
    wb_segment segment;
    size_t i, position = 99;
    CHECK(wb_model_stored_at(model, 20) == NULL && wb_model_stored_at(NULL, 0) == NULL);
    CHECK(wb_tensor_ggml_type(NULL) == -1 && wb_model_data_start(NULL) == 0);
    for (i = 0; i < 20; i++) {
        char name[128];
        tensor = wb_model_stored_at(model, i);
        CHECK(tensor != NULL);
        snprintf(name, sizeof name, "%.*s", (int)wb_tensor_name(tensor).len, wb_tensor_name(tensor).data);
        OK(wb_model_stored_find(model, name, &position));
        CHECK(position == i && (wb_tensor_ggml_type(tensor) == 8 || wb_tensor_ggml_type(tensor) == 0));
        OK(wb_tensor_segment(tensor, 0, &segment));
        CHECK(segment.offset >= wb_model_data_start(model) && wb_model_data_start(model) % 32 == 0);
    }
    CHECK(wb_model_stored_find(model, "absent", &position) == WB_NOT_FOUND);
    CHECK(wb_model_stored_find(model, NULL, &position) == WB_USAGE);
}

static void builder(const char *folder, const wb_model *model) {
    const uint64_t shape[2] = {2, 256}, large = UINT64_MAX;
    const uint32_t numbers[3] = {1, 2, 3};
    const int64_t negative = -5;
    const unsigned char yes = 1;
    const double exact = 0.1;
    const wb_str words[2] = {{"a", 1}, {"bc", 2}};
    float values[512], back[512];
    wb_builder *made = NULL, *edit = NULL;
    wb_model *found = NULL;
    wb_value value;
    char *json = NULL;
    int32_t in_place = -1;
    size_t i;
    for (i = 0; i < 512; i++) {
        values[i] = (float)i;
    }
    CHECK(wb_builder_new("absent", &made) == WB_USAGE && wb_builder_new(NULL, &made) == WB_USAGE);
    OK(wb_builder_new("gguf", &made));
    OK(wb_builder_copy_metadata(made, model));
    OK(wb_builder_set_string(made, "my.name", "Mine", 4));
    OK(wb_builder_set_strings(made, "my.words", words, 2));
    OK(wb_builder_set_number(made, "my.large", WB_VALUE_U64, &large));
    OK(wb_builder_set_number(made, "my.negative", WB_VALUE_I64, &negative));
    OK(wb_builder_set_number(made, "my.flag", WB_VALUE_BOOL, &yes));
    OK(wb_builder_set_number(made, "my.exact", WB_VALUE_F64, &exact));
    OK(wb_builder_set_array(made, "my.numbers", WB_VALUE_U32, numbers, 3));
    CHECK(wb_builder_set_number(made, "my.text", WB_VALUE_STRING, "x") == WB_USAGE);
    OK(wb_builder_remove(made, "general.name"));
    OK(wb_builder_add(made, "copy", wb_model_stored_at(model, 0), NULL));
    OK(wb_builder_add_array(made, "plain", "F32", shape, 2, values, sizeof values, NULL));
    OK(wb_builder_add_array(made, "small", "F32", shape, 2, values, sizeof values, "Q8_0"));
    CHECK(wb_builder_add_array(made, "x", "F32", shape, 2, values, 7, NULL) == WB_USAGE);
    CHECK(wb_builder_add_array(made, "x", "F33", shape, 2, values, sizeof values, NULL) == WB_USAGE);
    OK(wb_builder_write(made, in(folder, "mine.gguf"), NULL, &json));
    CHECK(strstr(json, "quantized"));
    wb_string_free(json);
    CHECK(wb_builder_write(made, in(folder, "mine.gguf"), NULL, NULL) == WB_USAGE);
    OK(wb_builder_write(made, in(folder, "again.gguf"), NULL, NULL));
    wb_builder_free(made);
    wb_builder_free(NULL);

    OK(wb_builder_new("gguf", &edit));
    OK(wb_builder_set_string(edit, "my.name", "Thine", 5));
    OK(wb_builder_remove(edit, "my.flag"));
    OK(wb_metadata_edit(in(folder, "mine.gguf"), edit, &in_place));
    CHECK(in_place == 0 || in_place == 1);
    OK(wb_metadata_edit(in(folder, "mine.gguf"), edit, NULL));
    wb_builder_free(edit);
    OK(wb_open(in(folder, "mine.gguf"), NULL, &found));
    OK(wb_metadata_find(found, "my.name", &value));
    CHECK(is(value.string, "Thine"));
    OK(wb_metadata_find(found, "my.large", &value));
    CHECK(value.bits == UINT64_MAX && value.integer == 0 && value.value_type == WB_VALUE_U64);
    OK(wb_metadata_find(found, "my.negative", &value));
    CHECK(value.integer == -5 && value.bits == (uint64_t)-5);
    OK(wb_metadata_find(found, "my.exact", &value));
    CHECK(value.number == 0.1 && memcmp(&value.bits, &exact, sizeof exact) == 0);
    OK(wb_metadata_find(found, "my.numbers", &value));
    CHECK(value.count == 3 && value.bytes == 12 && memcmp(value.data, numbers, 12) == 0);
    CHECK(wb_metadata_find(found, "my.flag", &value) == WB_NOT_FOUND);
    CHECK(wb_metadata_find(found, "general.name", &value) == WB_NOT_FOUND);
    OK(wb_model_stored_find(found, "plain", &i));
    OK(wb_tensor_dequantize(wb_model_stored_at(found, i), 0, 2, WB_F32, back, sizeof back));
    CHECK(memcmp(values, back, sizeof back) == 0);
    wb_model_free(found);

    OK(wb_builder_new("mlx", &made));
    OK(wb_builder_document(made, "notes.txt", "hello", 5));
    OK(wb_builder_add_array(made, "plain", "F32", shape, 2, values, sizeof values, NULL));
    OK(wb_builder_write(made, in(folder, "mine"), NULL, NULL));
    wb_builder_free(made);
}

static void verbs(const char *assets, const char *folder, const wb_model *model) {
    wb_write_options options = {0};
    wb_model *other = NULL;
    char *json = NULL;
    int calls = 0;
    OK(wb_inspect(model, &json));
    CHECK(strstr(json, "\"container\":\"gguf\""));
    wb_string_free(json);
    OK(wb_hash(model, 1, go_on, NULL, &json));
    CHECK(strstr(json, "sha256"));
    wb_string_free(json);
    CHECK(wb_hash(model, 0, cancel, &calls, &json) == WB_CANCELLED && calls > 0);
    OK(wb_verify(in(assets, "hf"), NULL, 1, go_on, NULL, &json));
    CHECK(strstr(json, "\"faults\":[]"));
    wb_string_free(json);

    options.size = sizeof options;
    options.threads = 1;
    options.memory = 64 << 20;
    options.progress = go_on;
    options.dry_run = 1;
    OK(wb_convert(model, in(folder, "c.safetensors"), &options, &json));
    CHECK(strstr(json, "\"dry_run\":true"));
    wb_string_free(json);
    CHECK(wb_open(in(folder, "c.safetensors"), NULL, &other) == WB_NOT_FOUND);
    options.dry_run = 0;
    OK(wb_convert(model, in(folder, "c.safetensors"), &options, &json));
    wb_string_free(json);
    CHECK(wb_convert(model, in(folder, "c.safetensors"), &options, NULL) == WB_USAGE);
    options.overwrite = 1;
    OK(wb_convert(model, in(folder, "c.safetensors"), &options, NULL));
    options.overwrite = 0;
    options.lossless = 1;
    options.container = "mlx";
    OK(wb_convert(model, in(folder, "mlx"), &options, NULL));
    options.container = "absent";
    CHECK(wb_convert(model, in(folder, "x"), &options, NULL) == WB_USAGE);
    options.container = NULL;
    CHECK(wb_convert(model, in(folder, "x"), &options, NULL) == WB_USAGE);
    OK(wb_open(in(folder, "mlx"), NULL, &other));
    OK(wb_diff(model, other, 0.0, go_on, NULL, &json));
    wb_string_free(json);
    wb_model_free(other);

    OK(wb_open(in(assets, "hf"), NULL, &other));
    CHECK(wb_diff(model, other, 0.0, NULL, NULL, &json) == WB_FOUND);
    wb_string_free(json);
    OK(wb_quantize(other, in(folder, "q.gguf"), "Q4_K_M", &options, &json));
    CHECK(strstr(json, "Q4_K"));
    wb_string_free(json);
    OK(wb_quantize(other, in(folder, "m"), "mlx:affine", &options, NULL));
    CHECK(wb_quantize(other, in(folder, "n"), "mlx:absent", &options, NULL) == WB_USAGE);
    CHECK(wb_quantize(other, in(folder, "n.gguf"), "absent", &options, NULL) == WB_USAGE);
    options.progress = cancel;
    options.user = &calls;
    CHECK(wb_quantize(other, in(folder, "n.gguf"), "Q8_0", &options, NULL) == WB_CANCELLED);
    options.progress = go_on;
    create(folder, other, &options);
    wb_model_free(other);
    CHECK(wb_open(in(folder, "n.gguf"), NULL, &other) == WB_NOT_FOUND);
}

int main(int argc, char **argv) {
    wb_model *model = NULL;
    wb_open_options options = {0};
    FILE *file;
    char *bytes;
    size_t len;
    CHECK(argc == 3 && wb_abi_version() == WB_ABI_VERSION && strlen(wb_version()) >= 5);
    errors(argv[1]);
    family(argv[2]);

    /* From memory. */
    file = fopen(in(argv[1], "sample-Q8_0.gguf"), "rb");
    CHECK(file != NULL);
    bytes = malloc(4 << 20);
    CHECK(bytes != NULL);
    len = fread(bytes, 1, 4 << 20, file);
    fclose(file);
    OK(wb_open_memory("memory", bytes, len, NULL, &model));
    free(bytes);
    CHECK(is(wb_model_container(model), "gguf"));
    wb_model_free(model);

    options.size = sizeof options;
    options.strictness = 1;
    options.no_map = 1;
    options.threads = 1;
    OK(wb_open(in(argv[1], "sample-Q8_0.gguf"), &options, &model));
    CHECK(wb_error_message() == NULL && wb_error_kind() == NULL);
    CHECK(is(wb_model_note(model, wb_model_note_count(model)), ""));
    CHECK(wb_model_stored_bytes(model) > 1000000);
    metadata(model);
    config(model);
    weights(model);
    tokenizer(argv[1], model);
    split_and_merge(argv[2], model);
    verbs(argv[1], argv[2], model);
    stored(model);
    builder(argv[2], model);
    tensors(argv[1], model); /* frees the model */
    printf("every function was called\n");
    return 0;
}
