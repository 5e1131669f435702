/* Eight threads share one model, and open their own: threads PATH */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "weighbridge.h"

static wb_model *shared;
static const char *path;

static int fault(void) {
    char expected[64];
    size_t i, round, count = 0;
    for (round = 0; round < 4; round++) {
        wb_model *own = NULL;
        wb_weights *weights = NULL;
        if (wb_model_name_count(shared, &count) != WB_OK || wb_open(path, NULL, &own) != WB_OK) {
            return 1;
        }
        for (i = 0; i < count; i++) {
            wb_tensor *tensor = NULL;
            float row[4096];
            const uint64_t *shape;
            size_t rank;
            wb_str name;
            char text[256];
            if (wb_model_name(shared, i, &name) != WB_OK) {
                return 2;
            }
            snprintf(text, sizeof text, "%.*s", (int)name.len, name.data);
            if (wb_model_tensor(shared, text, &tensor) != WB_OK) {
                return 3;
            }
            rank = wb_tensor_shape(tensor, &shape);
            if (wb_tensor_dequantize(tensor, 0, 1, WB_F32, row, (size_t)shape[rank - 1] * 4) != WB_OK) {
                return 4;
            }
            wb_tensor_free(tensor);
        }
        /* Each thread has an error of its own. */
        snprintf(expected, sizeof expected, "absent-%p", (void *)&expected);
        if (wb_metadata_find(shared, expected, &(wb_value){0}) != WB_NOT_FOUND) {
            return 5;
        }
        if (strcmp(wb_error_key(), expected) != 0 || wb_load(own, NULL, &weights) != WB_OK) {
            return 6;
        }
        wb_weights_free(weights);
        wb_model_free(own);
    }
    return 0;
}

static void *run(void *result) {
    *(int *)result = fault();
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    int results[8], i, failed = 0;
    path = argc == 2 ? argv[1] : "";
    if (wb_open(path, NULL, &shared) != WB_OK) {
        fprintf(stderr, "%s\n", wb_error_message());
        return 1;
    }
    for (i = 0; i < 8; i++) {
        if (pthread_create(&threads[i], NULL, run, &results[i]) != 0) {
            return 1;
        }
    }
    for (i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        failed |= results[i];
    }
    wb_model_free(shared);
    printf("%d\n", failed);
    return failed;
}
