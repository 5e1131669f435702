/* A GGUF parser over Weighbridge, for C99 and C++11. Results are kept until gguf_close: ask once for each key and tensor. */
#include <stdlib.h>
#include <string.h>
#include <weighbridge.h>
typedef struct { const char *name; uint64_t n_elements, dims[4], offset; uint32_t n_dims, dtype; const wb_tensor *tensor; } GGUFTensorInfo;
typedef union { uint32_t u32; int32_t i32; uint64_t u64; int64_t i64; float f32; double f64; const char *str; } GGUFValue;
typedef struct { const char *key; uint32_t type; GGUFValue value; uint64_t array_len; const void *array_data; } GGUFMetadataKV;
typedef struct { wb_model *model; void **kept; } *GGUFFile;
static inline void *gguf_keep(GGUFFile file, uint64_t count, size_t size) {
    void **block = (void **)calloc(1, sizeof *block + (size_t)count * size);
    if (block == NULL) { abort(); }
    return block[0] = file->kept, file->kept = block, block + 1; }
static inline const char *gguf_text(GGUFFile f, wb_str text) { return (const char *)memcpy(gguf_keep(f, text.len + 1, 1), text.data, text.len); }
static inline GGUFFile gguf_open(const char *path) {
    GGUFFile file = (GGUFFile)calloc(1, sizeof *file);
    return file == NULL || wb_open(path, NULL, &file->model) == WB_OK ? file : (free(file), (GGUFFile)NULL); }
static inline void gguf_close(GGUFFile file) {
    for (void **block = file->kept, **next; block != NULL; block = next) { next = (void **)block[0], free(block); }
    wb_model_free(file->model), free(file); }
static inline uint64_t gguf_tensor_count(GGUFFile file) { return wb_model_tensor_count(file->model); }
static inline uint64_t gguf_metadata_count(GGUFFile file) { return wb_metadata_count(file->model); }
static inline const GGUFTensorInfo *gguf_get_tensor_by_index(GGUFFile file, uint64_t index) {
    GGUFTensorInfo *info = (GGUFTensorInfo *)gguf_keep(file, 1, sizeof *info);
    wb_segment at;
    info->tensor = wb_model_stored_at(file->model, (size_t)index);
    if (info->tensor == NULL || wb_tensor_segment(info->tensor, 0, &at) != WB_OK) { return NULL; }
    info->name = gguf_text(file, at.name), info->n_elements = wb_tensor_elements(info->tensor), info->n_dims = (uint32_t)at.rank;
    info->dtype = (uint32_t)wb_tensor_ggml_type(info->tensor), info->offset = at.offset - wb_model_data_start(file->model);
    for (size_t d = 0; d < at.rank && d < 4; d++) { info->dims[d] = at.shape[at.rank - 1 - d]; }
    return info; }
static inline const GGUFTensorInfo *gguf_get_tensor(GGUFFile file, const char *name) {
    size_t index;
    return wb_model_stored_find(file->model, name, &index) == WB_OK ? gguf_get_tensor_by_index(file, index) : NULL; }
static inline const void *gguf_tensor_data(GGUFFile file, const GGUFTensorInfo *info) {
    const void *data = NULL;
    return (void)file, wb_tensor_data(info->tensor, NULL, &data, NULL) == WB_OK ? data : NULL; }
static inline const GGUFMetadataKV *gguf_get_metadata_by_index(GGUFFile file, uint64_t index) {
    GGUFMetadataKV *kv = (GGUFMetadataKV *)gguf_keep(file, 1, sizeof *kv);
    wb_value found;
    if (wb_metadata_at(file->model, (size_t)index, &found) != WB_OK) { return NULL; }
    kv->key = gguf_text(file, found.key), kv->type = found.value_type, kv->array_len = found.count, kv->array_data = found.data;
    kv->value.u64 = found.value_type == WB_VALUE_ARRAY ? found.element_type : found.bits;
    if (found.value_type == WB_VALUE_STRING) { kv->value.str = gguf_text(file, found.string); }
    return kv; }
static inline const GGUFMetadataKV *gguf_get_metadata(GGUFFile file, const char *key) {
    size_t index;
    return wb_metadata_position(file->model, key, &index) == WB_OK ? gguf_get_metadata_by_index(file, index) : NULL; }
static inline const char **gguf_get_string_array(GGUFFile file, const char *key, uint64_t *out_count) {
    const GGUFMetadataKV *kv = gguf_get_metadata(file, key);
    wb_str *texts = kv == NULL ? NULL : (wb_str *)gguf_keep(file, kv->array_len, sizeof *texts);
    if (texts == NULL || wb_metadata_strings(file->model, key, texts, (size_t)kv->array_len) != WB_OK) { return NULL; }
    const char **out = (const char **)gguf_keep(file, *out_count = kv->array_len, sizeof *out);
    for (uint64_t i = 0; i < kv->array_len; i++) { out[i] = gguf_text(file, texts[i]); }
    return out; }
static inline const float *gguf_get_float_array(GGUFFile file, const char *key, uint64_t *out_count) {
    const GGUFMetadataKV *kv = gguf_get_metadata(file, key);
    float *out = kv == NULL || kv->value.u32 != WB_VALUE_F32 ? NULL : (float *)gguf_keep(file, kv->array_len, sizeof *out);
    if (out == NULL || wb_metadata_floats(file->model, key, out, (size_t)kv->array_len) != WB_OK) { return NULL; }
    return *out_count = kv->array_len, out; }
