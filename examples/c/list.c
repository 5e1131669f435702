/* Lists the tensors of a model in any format: list PATH */
#include <stdio.h>

#include "weighbridge.h"

static int fail(int status) {
    fprintf(stderr, "error: %s\n", wb_error_message());
    if (wb_error_advice()) {
        fprintf(stderr, " help: %s\n", wb_error_advice());
    }
    return status;
}

int main(int argc, char **argv) {
    wb_model *model = NULL;
    size_t i, count;
    int status;
    if (argc != 2 || wb_abi_version() != WB_ABI_VERSION) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return WB_USAGE;
    }
    status = wb_open(argv[1], NULL, &model);
    if (status != WB_OK) {
        return fail(status);
    }
    count = wb_model_tensor_count(model);
    printf("%.*s, %lu tensors, %lu bytes\n", (int)wb_model_container(model).len,
           wb_model_container(model).data, (unsigned long)count,
           (unsigned long)wb_model_stored_bytes(model));
    for (i = 0; i < count && status == WB_OK; i++) {
        wb_tensor *tensor = NULL;
        const uint64_t *shape;
        size_t rank, axis;
        status = wb_model_stored_tensor_at(model, i, &tensor);
        if (status == WB_OK) {
            wb_str name = wb_tensor_name(tensor), dtype = wb_tensor_dtype(tensor);
            printf("%.*s %.*s", (int)name.len, name.data, (int)dtype.len, dtype.data);
            rank = wb_tensor_shape(tensor, &shape);
            for (axis = 0; axis < rank; axis++) {
                printf("%s%lu", axis == 0 ? " " : " x ", (unsigned long)shape[axis]);
            }
            printf("\n");
        }
        wb_tensor_free(tensor);
    }
    wb_model_free(model);
    return status == WB_OK ? 0 : fail(status);
}
