/* Opens files that may be damaged, and reads all of each: hostile PATH... Prints each status. */
#include <stdio.h>
#include <stdlib.h>

#include "weighbridge.h"

/* The start of the struct of DLPack 1.0. */
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
};

static void read_tensor(wb_tensor *tensor) {
    const void *data;
    struct DLManagedTensorVersioned *shared;
    size_t len, i;
    wb_segment segment;
    unsigned sum = 0;
    for (i = 0; i < wb_tensor_segment_count(tensor); i++) {
        (void)wb_tensor_segment(tensor, i, &segment);
    }
    if (wb_tensor_data(tensor, NULL, &data, &len) == WB_OK) {
        for (i = 0; i < len; i += 4096) {
            sum += ((const unsigned char *)data)[i];
        }
    }
    if (wb_tensor_elements(tensor) < 1 << 20) {
        void *out;
        len = (size_t)wb_tensor_elements(tensor) * 4;
        out = malloc(len + 1);
        (void)wb_tensor_dequantize(tensor, 0, wb_tensor_rows(tensor), WB_F32, out, len);
        free(out);
        if (wb_tensor_dlpack(tensor, WB_STORED, &shared) == WB_OK) {
            shared->deleter(shared);
        }
    }
    (void)sum;
}

int main(int argc, char **argv) {
    int n;
    for (n = 1; n < argc; n++) {
        wb_model *model = NULL;
        int status = wb_open(argv[n], NULL, &model);
        size_t i, count = 0;
        wb_value value;
        wb_str name;
        char *json = NULL;
        printf("%d %s\n", status, argv[n]);
        if (status == WB_OK) {
            for (i = 0; i < wb_metadata_count(model); i++) {
                (void)wb_metadata_at(model, i, &value);
            }
            (void)wb_config_count(model, &count);
            count = 0;
            (void)wb_model_name_count(model, &count);
            for (i = 0; i < count && i < 64; i++) {
                (void)wb_model_name(model, i, &name);
            }
            for (i = 0; i < wb_model_tensor_count(model) && i < 64; i++) {
                wb_tensor *tensor = NULL;
                if (wb_model_stored_tensor_at(model, i, &tensor) == WB_OK) {
                    read_tensor(tensor);
                }
                wb_tensor_free(tensor);
            }
            (void)wb_inspect(model, &json);
            wb_string_free(json);
        } else if (wb_error_message() == NULL) {
            return 77;
        }
        wb_model_free(model);
    }
    return 0;
}
