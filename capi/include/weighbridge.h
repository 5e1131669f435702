/* Weighbridge: opens the weights of language models. See docs/c.md.
 * Written by `cargo xtask header`; do not edit. */

#ifndef WEIGHBRIDGE_H
#define WEIGHBRIDGE_H

#include <stddef.h>
#include <stdint.h>

/* DLPack: include <dlpack/dlpack.h> to use what is behind these pointers. */
struct DLManagedTensorVersioned;


// The interface that this header describes.
#define WB_ABI_VERSION 1

// The result of a function: an exit status of the program `weighbridge`, or WB_NOT_FOUND.
enum wb_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Success.
  WB_OK = 0,
  // wb_verify found a fault, or wb_diff a difference: the report says which.
  WB_FOUND = 1,
  // An argument does not fit the model, the destination or this function.
  WB_USAGE = 2,
  // The file is damaged, incomplete, contradicts itself, exceeds a limit, or is no model.
  WB_INVALID = 3,
  // Unsupported.
  WB_UNSUPPORTED = 4,
  // No permission, no space, no memory.
  WB_IO = 5,
  // The file, tensor, key or position does not exist.
  WB_NOT_FOUND = 6,
  // A fault of this library: a panic was caught. Please report it.
  WB_INTERNAL = 101,
  // A callback cancelled the call.
  WB_CANCELLED = 130,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum wb_status wb_status;
#else
typedef int32_t wb_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The dtype of values.
enum wb_dtype
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // As stored: packed if the tensor is quantized.
  WB_STORED = 0,
  // 32-bit floats.
  WB_F32 = 1,
  // 16-bit floats with 5 bits of exponent.
  WB_F16 = 2,
  // 16-bit floats with 8 bits of exponent.
  WB_BF16 = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum wb_dtype wb_dtype;
#else
typedef int32_t wb_dtype;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The type of a metadata value, by its GGUF code.
enum wb_value_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // An unsigned integer of 8 bits.
  WB_VALUE_U8 = 0,
  // A signed integer of 8 bits.
  WB_VALUE_I8 = 1,
  // An unsigned integer of 16 bits.
  WB_VALUE_U16 = 2,
  // A signed integer of 16 bits.
  WB_VALUE_I16 = 3,
  // An unsigned integer of 32 bits.
  WB_VALUE_U32 = 4,
  // A signed integer of 32 bits.
  WB_VALUE_I32 = 5,
  // A float of 32 bits.
  WB_VALUE_F32 = 6,
  // A boolean.
  WB_VALUE_BOOL = 7,
  // A string.
  WB_VALUE_STRING = 8,
  // An array.
  WB_VALUE_ARRAY = 9,
  // An unsigned integer of 64 bits.
  WB_VALUE_U64 = 10,
  // A signed integer of 64 bits.
  WB_VALUE_I64 = 11,
  // A float of 64 bits.
  WB_VALUE_F64 = 12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum wb_value_type wb_value_type;
#else
typedef uint32_t wb_value_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A model that is being built: its tensors, metadata and documents. One thread uses it at a time.
typedef struct wb_builder wb_builder;

// An opened model. Any number of threads may use it at the same time; one of them frees it when no
// other uses it any more. Tensors and loaded weights keep what they need: they may outlive it.
typedef struct wb_model wb_model;

// A tensor. It keeps what it needs of its model. Any number of threads may use it at the same time.
typedef struct wb_tensor wb_tensor;

// The tokenizer of a model. It keeps nothing of its model. Any number of threads may use it at the same
// time.
typedef struct wb_tokenizer wb_tokenizer;

// Loaded tensors. Any number of threads may read them at the same time.
typedef struct wb_weights wb_weights;

// Bytes of text: UTF-8 unless the file stores something else. Not terminated by NUL: print it with
// "%.*s". `data` is never NULL in a value that this library returns.
typedef struct {
  // The first byte.
  const char *data;
  // The number of bytes.
  size_t len;
} wb_str;

// Progress of a long call, in bytes. Called from any thread that does the work, and from several at
// a time. Any value but 0 cancels the call, which then returns WB_CANCELLED.
typedef int32_t (*wb_progress)(void *user, uint64_t done, uint64_t total);

// Options of the functions that write models.
typedef struct {
  // sizeof(wb_write_options).
  size_t size;
  // wb_convert: the container to write: "gguf", "safetensors", "mlx" or "ollama". NULL: by the ending
  // of the destination, .gguf or .safetensors.
  const char *container;
  // wb_quantize: the path of an importance matrix, or NULL.
  const char *imatrix;
  // Passed to the callback.
  void *user;
  // Called with the progress, or NULL.
  wb_progress progress;
  // Bytes of memory for buffers; 0 means 256 MiB.
  uint64_t memory;
  // The number of threads; 0 means one for each processor.
  uint32_t threads;
  // Other than 0: replace an existing destination once the new one is complete.
  uint32_t overwrite;
  // Other than 0: write a model although it lacks tensors that its family requires.
  uint32_t allow_incomplete;
  // Other than 0: plan, but write nothing.
  uint32_t dry_run;
  // wb_convert, other than 0: any loss of values is an error.
  uint32_t lossless;
  // wb_quantize, other than 0: quantize tensors that are quantized already.
  uint32_t allow_requantize;
  // Other than 0: quantize tensors with NaN, infinities, or values beyond the range of a block's scale,
  // which otherwise are an error.
  uint32_t allow_nonfinite;
} wb_write_options;

// Allocates `bytes` bytes at a multiple of `alignment` for a tensor, or returns NULL. Called from
// the thread that calls wb_load.
typedef void *(*wb_allocate)(void *user, size_t bytes, size_t alignment);

// Gives back what wb_allocate returned: when the weights are freed, or when loading fails.
typedef void (*wb_release)(void *user, void *data, size_t bytes);

// Whether a tensor is loaded, by its name. Called from the thread that calls wb_load.
typedef int32_t (*wb_wanted)(void *user, wb_str name);

// Options of wb_load.
typedef struct {
  // sizeof(wb_load_options).
  size_t size;
  // A dtype of wb_dtype: the one of all floats and quantized tensors, or WB_STORED.
  int32_t dtype;
  // The number of threads; 0 means four.
  uint32_t threads;
  // Fusions by name, separated by commas: "qkv,gate-up". NULL for none. Tensors that can be joined
  // share one buffer.
  const char *fuse;
  // Passed to the callbacks.
  void *user;
  // Called with the progress, or NULL.
  wb_progress progress;
  // Provides the memory, or NULL: then it is the library's.
  wb_allocate allocate;
  // Gives back the memory, or NULL: then it stays the caller's.
  wb_release release;
  // Chooses tensors, or NULL: then all are loaded.
  wb_wanted wanted;
} wb_load_options;

// A loaded tensor, or several that were fused.
typedef struct {
  // The names of its tensors, joined by "+".
  wb_str name;
  // The dtype of its elements.
  wb_str dtype;
  // The dimensions, outermost first.
  const uint64_t *shape;
  // The number of dimensions.
  size_t rank;
  // The number of tensors in it: 1 unless it is fused.
  size_t members;
  // All parts, the weight first; each begins at a multiple of 64 bytes.
  const void *data;
  // The bytes of all parts.
  size_t bytes;
  // The bytes of the weight, which lies at `data`.
  size_t weight_bytes;
} wb_buffer;

// A key of the metadata and its value.
typedef struct {
  // The key.
  wb_str key;
  // The type: one of wb_value_type.
  uint32_t value_type;
  // The type of an array's elements; otherwise that of the value.
  uint32_t element_type;
  // The number of elements of an array; otherwise 1.
  uint64_t count;
  // A number or boolean that fits it; otherwise 0.
  int64_t integer;
  // A number or boolean as its type lays it out, in the low bytes: an integer of 64 bits without a sign, a
  // negative integer in two's complement, the bits of a float; otherwise 0.
  uint64_t bits;
  // A number; otherwise NaN.
  double number;
  // A string; otherwise empty.
  wb_str string;
  // The elements of an array of numbers or booleans in the file's header: `bytes` bytes, little-endian,
  // perhaps unaligned, valid as long as the model. NULL for other values, and for a file of the other byte
  // order.
  const void *data;
  // The length of `data`.
  size_t bytes;
} wb_value;

// Options of wb_open.
typedef struct {
  // sizeof(wb_open_options).
  size_t size;
  // 0: broken rules that leave one safe interpretation become notes. 1: apply the strictest
  // reader's rules. 2: also accept what only MLX and whisper.cpp accept.
  uint32_t strictness;
  // Other than 0: read tensor data into memory instead of mapping the files.
  uint32_t no_map;
  // The number of threads; 0 means one for each processor.
  uint32_t threads;
  // Other than 0: open every weight file of a directory, not only those that its index names.
  uint32_t all_files;
} wb_open_options;

// A value of the config.
typedef struct {
  // The group: "model", "attention", "rope" and others.
  wb_str group;
  // The name: "dim", "layers".
  wb_str name;
  // The value as JSON: 4096, "silu", null.
  wb_str json;
  // The key or file that contains it, or the rule that derived it.
  wb_str source;
  // The value, if it is a number; otherwise NaN.
  double number;
} wb_field;

// A stored array of a tensor: its elements, or the scales and other parts of a quantized tensor.
typedef struct {
  // Its kind: "weight", "scale", "bias", "zero_point" and others.
  wb_str part;
  // Its own name in the file.
  wb_str name;
  // Its own dtype.
  wb_str dtype;
  // Its own dimensions, outermost first.
  const uint64_t *shape;
  // The number of dimensions.
  size_t rank;
  // The file that holds it.
  wb_str path;
  // The position of its first byte in the file.
  uint64_t offset;
  // Its length in bytes.
  uint64_t bytes;
} wb_segment;

// A token of a vocabulary.
typedef struct {
  // The spelling in the file: byte-level BPE has a letter for each byte, SentencePiece a lower block
  // for a space. Any bytes.
  wb_str text;
  // The token's number.
  uint32_t id;
  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; 0 if the file does not state it.
  uint32_t kind;
  // The score, or NaN if the file has none.
  float score;
} wb_token;

// Options of wb_create.
typedef struct {
  // sizeof(wb_create_options).
  size_t size;
  // Ollama's store, or NULL: the folder in the environment variable OLLAMA_MODELS, or Ollama's usual one.
  const char *store;
  // The path of a Modelfile, which sets template, system prompt, parameters and the like, or NULL.
  const char *modelfile;
  // The type of quantized matrices: "int4", "int8", "nvfp4", "mxfp4" or "mxfp8". NULL: as they are.
  const char *quantize;
} wb_create_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface of this library. It changes when a program that was compiled with an
// older header would no longer work: compare it with WB_ABI_VERSION.
uint32_t wb_abi_version(void);

// The version of the library, such as "0.1.0": a constant that ends with NUL.
const char *wb_version(void);

// Starts a model without tensors for a container: "gguf", "mlx", or "safetensors" for one file. Free *out
// with wb_builder_free.
int32_t wb_builder_new(const char *container, wb_builder **out);

// Frees a builder. NULL is allowed.
void wb_builder_free(wb_builder *builder);

// Copies all metadata of a model, of the same container.
int32_t wb_builder_copy_metadata(wb_builder *builder, const wb_model *model);

// Sets a key to a string of `len` bytes.
int32_t wb_builder_set_string(wb_builder *builder, const char *key, const char *string, size_t len);

// Sets a key to `count` strings.
int32_t wb_builder_set_strings(wb_builder *builder, const char *key, const wb_str *strings, size_t count);

// Sets a key to a number or boolean. `data` points to one of the type of wb_value_type: a uint32_t for
// WB_VALUE_U32, a byte for WB_VALUE_BOOL.
int32_t wb_builder_set_number(wb_builder *builder, const char *key, uint32_t value_type, const void *data);

// Sets a key to an array of `count` numbers or booleans of the type of wb_value_type.
int32_t wb_builder_set_array(wb_builder *builder, const char *key, uint32_t value_type, const void *data, size_t count);

// Removes a key: from the builder, and from the file that wb_metadata_edit changes.
int32_t wb_builder_remove(wb_builder *builder, const char *key);

// Adds a file of `len` bytes beside the weights, such as "config.json".
int32_t wb_builder_document(wb_builder *builder, const char *name, const void *content, size_t len);

// Adds a tensor, in the dtype `dtype`, such as "Q4_K", or, if that is NULL, as it is. The builder keeps what
// it needs of it.
int32_t wb_builder_add(wb_builder *builder, const char *name, const wb_tensor *tensor, const char *dtype);

// Adds an array of the caller: `len` bytes of the dtype `stored`, little-endian, packed if it is quantized,
// with `rank` dimensions, outermost first. It is written in the dtype `dtype`, or, if that is NULL, as it is.
// The memory is read by wb_builder_write: it must stay valid until the builder is freed.
int32_t wb_builder_add_array(wb_builder *builder, const char *name, const char *stored, const uint64_t *shape, size_t rank, const void *data, size_t len, const char *dtype);

// Writes the model to a file, or for "mlx" to a directory. A builder may write several times. `options` may
// be NULL. *json is a report, to be freed with wb_string_free; `json` may be NULL.
int32_t wb_builder_write(const wb_builder *builder, const char *destination, const wb_write_options *options, char **json);

// Changes the metadata of a GGUF file: sets the keys of the builder, and removes those that
// wb_builder_remove was called with. The file is changed in place where that is safe, else rewritten and
// replaced. *in_place tells which; it may be NULL.
int32_t wb_metadata_edit(const char *path, const wb_builder *builder, int32_t *in_place);

// The message of the last call of this thread, if it failed; otherwise NULL. Valid, as all strings
// of the last error, until the thread calls another function that returns a status.
const char *wb_error_message(void);

// The kind of the last error: "io", "not_found", "unknown_container", "malformed", "unsupported",
// "limit_exceeded", "mismatch", "cancelled" or "internal"; NULL if there is none.
const char *wb_error_kind(void);

// The path of the file or directory concerned, or NULL.
const char *wb_error_path(void);

// The stored name of the tensor concerned, or NULL.
const char *wb_error_tensor(void);

// The metadata key concerned, or NULL.
const char *wb_error_key(void);

// Returns what to do about the error, or NULL. It is not part of the message.
const char *wb_error_advice(void);

// The byte offset in wb_error_path() at which the faulty item starts, or UINT64_MAX.
uint64_t wb_error_offset(void);

// Loads the tensors of a model by canonical name, each in one buffer with its scales and other parts,
// or fused. Reads go straight to their place. `options` may be NULL. Free *out with
// wb_weights_free.
int32_t wb_load(const wb_model *model, const wb_load_options *options, wb_weights **out);

// The number of buffers. 0 for NULL.
size_t wb_weights_count(const wb_weights *weights);

// The buffer at a position, 0 first. Pointers in it are valid as long as the weights.
int32_t wb_weights_at(const wb_weights *weights, size_t position, wb_buffer *out);

// Frees loaded tensors. NULL is allowed.
void wb_weights_free(wb_weights *weights);

// The number of metadata keys. 0 for NULL.
size_t wb_metadata_count(const wb_model *model);

// The key and value at a position in file order, 0 first. Strings are valid as long as the model.
int32_t wb_metadata_at(const wb_model *model, size_t position, wb_value *out);

// The value under a key. WB_NOT_FOUND if the key does not exist. `key` in the result is empty. Strings are
// valid as long as the model.
int32_t wb_metadata_find(const wb_model *model, const char *key, wb_value *out);

// The position of a key, for wb_metadata_at. WB_NOT_FOUND if the key does not exist.
int32_t wb_metadata_position(const wb_model *model, const char *key, size_t *out);

// Fills `out` with the strings of an array, such as "tokenizer.ggml.tokens". `count` must be the
// number of its elements. The strings are valid as long as the model; nothing is copied.
int32_t wb_metadata_strings(const wb_model *model, const char *key, wb_str *out, size_t count);

// Fills `out` with the numbers of an array, such as "tokenizer.ggml.scores". `count` must be the
// number of its elements.
int32_t wb_metadata_numbers(const wb_model *model, const char *key, double *out, size_t count);

// Fills `out` with the floats of an array, such as "tokenizer.ggml.scores", rounded to 32 bits. `count`
// must be the number of its elements.
int32_t wb_metadata_floats(const wb_model *model, const char *key, float *out, size_t count);

// Fills `out` with the integers or booleans of an array, such as "tokenizer.ggml.token_type".
// `count` must be the number of its elements.
int32_t wb_metadata_integers(const wb_model *model, const char *key, int64_t *out, size_t count);

// Opens a file, a directory, or a model in Ollama's store by its name. The format is detected from
// the content. Reads headers only. `options` may be NULL. Free *out with wb_model_free.
int32_t wb_open(const char *path, const wb_open_options *options, wb_model **out);

// Adds the model families of a file to the built-in ones, for the whole process.
int32_t wb_add_families(const char *path);

// Opens a GGUF, safetensors or whisper.cpp file that is in memory. The bytes are copied. `name`
// stands for the path in messages.
int32_t wb_open_memory(const char *name, const void *bytes, size_t len, const wb_open_options *options, wb_model **out);

// Frees a model. NULL is allowed.
void wb_model_free(wb_model *model);

// The container: "gguf", "safetensors", "mlx", "ollama" or "whisper-ggml". Empty for NULL.
wb_str wb_model_container(const wb_model *model);

// The number of stored tensors. Scales and other parts of a tensor do not count. 0 for NULL.
size_t wb_model_tensor_count(const wb_model *model);

// Bytes of all stored tensors. 0 for NULL.
uint64_t wb_model_stored_bytes(const wb_model *model);

// The number of names that wb_model_tensor accepts: canonical names, then the stored names of
// tensors without a canonical one.
int32_t wb_model_name_count(const wb_model *model, size_t *out);

// The name at a position, 0 first. Valid as long as the model.
int32_t wb_model_name(const wb_model *model, size_t position, wb_str *out);

// The tensor with a canonical name, such as "layers.0.attention.q.weight": its rows and values are
// those of the Hugging Face checkpoint. Free *out with wb_tensor_free.
int32_t wb_model_tensor(const wb_model *model, const char *name, wb_tensor **out);

// The tensor with a stored name, the one in the file: with the file's rows and values. Free *out
// with wb_tensor_free.
int32_t wb_model_stored_tensor(const wb_model *model, const char *name, wb_tensor **out);

// The stored tensor at a position in file order, 0 first. Free *out with wb_tensor_free.
int32_t wb_model_stored_tensor_at(const wb_model *model, size_t position, wb_tensor **out);

// The stored tensor at a position in file order, 0 first; NULL if there is none. It belongs to the model:
// do not free it. It is valid as long as the model.
const wb_tensor *wb_model_stored_at(const wb_model *model, size_t position);

// The position of the stored tensor with a name, for wb_model_stored_at. WB_NOT_FOUND if there is none.
int32_t wb_model_stored_find(const wb_model *model, const char *name, size_t *out);

// The position of the first byte of tensor data in the first file. 0 for NULL, and for a model without
// stored tensors.
uint64_t wb_model_data_start(const wb_model *model);

// The number of values of the config: those that an engine needs, whatever the container calls them.
int32_t wb_config_count(const wb_model *model, size_t *out);

// The config value at a position, 0 first. Its strings are valid as long as the model.
int32_t wb_config_at(const wb_model *model, size_t position, wb_field *out);

// The config value with a name, such as "dim" or "attention.heads": the group may be left out
// where the name alone is unique.
int32_t wb_config_find(const wb_model *model, const char *name, wb_field *out);

// The number of remarks about the model: broken rules of its format, files that were ignored.
size_t wb_model_note_count(const wb_model *model);

// The remark at a position, 0 first; empty if there is none. Valid as long as the model.
wb_str wb_model_note(const wb_model *model, size_t position);

// Frees a string that a function returned through a char ** argument. NULL is allowed.
void wb_string_free(char *string);

// Describes a model: summary, names, notes, metadata, tensors. As `weighbridge inspect --json`. Free
// *json with wb_string_free.
int32_t wb_inspect(const wb_model *model, char **json);

// Computes the SHA-256 of every tensor's stored bytes and, if `values` is not 0, of its values. As
// `weighbridge hash --json`. Free *json with wb_string_free.
int32_t wb_hash(const wb_model *model, uint32_t values, wb_progress progress, void *user, char **json);

// Checks a model: its format, its completeness, that its files agree and, if `deep` is not 0, its
// values. Returns WB_FOUND if it has a fault, or a remark about a value. As
// `weighbridge verify --json`. `options` may be NULL. Free *json with wb_string_free.
int32_t wb_verify(const char *path, const wb_open_options *options, uint32_t deep, wb_progress progress, void *user, char **json);

// Compares two models by canonical name; values that differ by at most `tolerance` are equal. Returns
// WB_FOUND if they differ. As `weighbridge diff --json`. Free *json with wb_string_free.
int32_t wb_diff(const wb_model *a, const wb_model *b, double tolerance, wb_progress progress, void *user, char **json);

// Frees a tensor. NULL is allowed.
void wb_tensor_free(wb_tensor *tensor);

// The name by which the tensor was requested. Valid as long as the tensor. Empty for NULL.
wb_str wb_tensor_name(const wb_tensor *tensor);

// The dtype: "F32", "Q4_K"; "Q4_K+Q6_K" for a tensor that is stored in several. Valid as long as the
// tensor. Empty for NULL.
wb_str wb_tensor_dtype(const wb_tensor *tensor);

// The type code of ggml of the dtype, such as 12 for Q4_K; -1 for NULL, for a dtype that ggml lacks, and for
// a tensor that is stored in several.
int32_t wb_tensor_ggml_type(const wb_tensor *tensor);

// The dimensions, outermost first. Returns their number, and in *shape a pointer to them that is
// valid as long as the tensor. 0 for NULL.
size_t wb_tensor_shape(const wb_tensor *tensor, const uint64_t **shape);

// The number of elements. 0 for NULL.
uint64_t wb_tensor_elements(const wb_tensor *tensor);

// The number of rows: runs of the last dimension, counted over all others. 0 for NULL.
uint64_t wb_tensor_rows(const wb_tensor *tensor);

// Returns a sentence that says why the tensor has no packed bytes, or an empty text if it has them.
wb_str wb_tensor_why_computed(const wb_tensor *tensor);

// The number of stored arrays that the tensor is made of. 0 for NULL, and for an unknown dtype.
size_t wb_tensor_segment_count(const wb_tensor *tensor);

// The stored array at a position, 0 first. Pointers in it are valid as long as the tensor.
int32_t wb_tensor_segment(const wb_tensor *tensor, size_t position, wb_segment *out);

// The packed bytes of one of the tensor's parts, little-endian; `part` is a name such as "weight"
// or "scale", and NULL means "weight". They are borrowed from the memory map where possible, and
// valid as long as the tensor. They may be unaligned. Do not write to them. `len` may be NULL.
int32_t wb_tensor_data(const wb_tensor *tensor, const char *part, const void **data, size_t *len);

// Rows first..end of the tensor as a tensor of their own. Nothing is read. Free *out with
// wb_tensor_free.
int32_t wb_tensor_slice(const wb_tensor *tensor, uint64_t first, uint64_t end, wb_tensor **out);

// Writes the values of rows first..end to `out`, in a dtype of wb_dtype other than WB_STORED. `len`
// is the length of `out` in bytes: it must be that of the values. wb_tensor_rows counts the rows.
int32_t wb_tensor_dequantize(const wb_tensor *tensor, uint64_t first, uint64_t end, int32_t dtype, void *out, size_t len);

// The tensor as a DLPack array in host memory, in a dtype of wb_dtype. WB_STORED shares the memory
// of the file where possible: a write to it stays in this process and never reaches the file. Call
// the deleter of *out when done.
int32_t wb_tensor_dlpack(const wb_tensor *tensor, int32_t dtype, struct DLManagedTensorVersioned **out);

// Reads the tokenizer of a model, from its metadata or from a file beside the weights. WB_NOT_FOUND if no file
// contains one. Free it with wb_tokenizer_free.
int32_t wb_model_tokenizer(const wb_model *model, wb_tokenizer **out);

// Frees a tokenizer. NULL is allowed.
void wb_tokenizer_free(wb_tokenizer *tokenizer);

// The algorithm that turns text into tokens: "bpe", "sentencepiece", "unigram", "wordpiece", or another
// name that the file states. Empty for NULL.
wb_str wb_tokenizer_kind(const wb_tokenizer *tokenizer);

// The chat template, in Jinja. Empty if there is none, and for NULL.
wb_str wb_tokenizer_chat_template(const wb_tokenizer *tokenizer);

// The number of tokens. 0 for NULL.
size_t wb_tokenizer_token_count(const wb_tokenizer *tokenizer);

// The token with a number. Its spelling is valid as long as the tokenizer.
int32_t wb_tokenizer_token(const wb_tokenizer *tokenizer, uint32_t id, wb_token *out);

// The number of the special token for a purpose: "bos", "eos", "unk", "pad", "eot", "mask" and the like.
// WB_NOT_FOUND if the model states none.
int32_t wb_tokenizer_special(const wb_tokenizer *tokenizer, const char *purpose, uint32_t *out);

// The number of merges. 0 for tokenizers that merge by scores, and for NULL.
size_t wb_tokenizer_merge_count(const wb_tokenizer *tokenizer);

// The two spellings that are merged into one, 0 first: the highest priority. The second is empty if the
// file names only one. They are valid as long as the tokenizer.
int32_t wb_tokenizer_merge(const wb_tokenizer *tokenizer, size_t position, wb_str *first, wb_str *second);

// Converts a model to another container: a file, a directory, or a model in Ollama's store. As
// `weighbridge convert --json`. `options` may be NULL. Free *json with wb_string_free.
int32_t wb_convert(const wb_model *model, const char *destination, const wb_write_options *options, char **json);

// Quantizes a model: to a GGUF file as llama-quantize does, with a file type such as "Q4_K_M", or to
// an MLX directory as mlx-lm does, with "mlx:affine", "mlx:mxfp4" and the like. As
// `weighbridge quantize --json`. `options` may be NULL. Free *json with wb_string_free.
int32_t wb_quantize(const wb_model *model, const char *destination, const char *file_type, const wb_write_options *options, char **json);

// Writes the tensors of a model unchanged to several files, each with at most `max_bytes` bytes of
// tensors or, if that is 0, at most `max_tensors` tensors. A GGUF model becomes shards whose names begin
// with `destination`, a safetensors model a directory. As `weighbridge split --json`. `options` may be
// NULL. Free *json with wb_string_free.
int32_t wb_split(const wb_model *model, const char *destination, uint64_t max_bytes, uint64_t max_tensors, const wb_write_options *options, char **json);

// Writes the tensors of a model unchanged to one file, with the tensor data aligned to `alignment` bytes,
// or as the format requires if that is 0. As `weighbridge merge --json`. `options` may be NULL. Free
// *json with wb_string_free.
int32_t wb_merge(const wb_model *model, const char *destination, uint64_t alignment, const wb_write_options *options, char **json);

// Creates a model in Ollama's store. `model` may be NULL if the Modelfile names one. `create` and
// `options` may be NULL. As `weighbridge create --json`. Free *json with wb_string_free.
int32_t wb_create(const wb_model *model, const char *name, const wb_create_options *create, const wb_write_options *options, char **json);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEIGHBRIDGE_H */
