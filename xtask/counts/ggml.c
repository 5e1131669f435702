/* Runs ggml's own functions as `crates/weighbridge-quant/src/tests/counts.rs` runs the kernels: on some elements and on twice as
 * many, with a line on standard error before and after each run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ggml.h"
#include "ggml-quants.h"
#include "quants.h"

enum { COLUMNS = 512, ELEMENTS = 16 * COLUMNS };

static float values[2 * ELEMENTS], out[2 * ELEMENTS];
static uint8_t packed[2 * ELEMENTS * 4];

/* What ggml calls when an assertion fails. */
void ggml_abort(const char *file, int line, const char *format, ...)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, format);
    abort();
}

static void say(const char *what, const char *name, const char *to, const char *at)
{
    char line[96];
    int length = snprintf(line, sizeof line, "%s %s %s ggml %s\n", what, name, to, at);
    if (write(2, line, (size_t)length) != length)
        exit(1);
}

/* As llama-quantize calls it; `quantize_row_iq4_nl` does not search for the best scale. */
static void quantize_iq4_nl_rows(const float *from, void *to, int64_t elements)
{
    quantize_iq4_nl(from, to, elements / COLUMNS, COLUMNS, NULL);
}

#define MEASURE(what, name, to, call)                                  \
    do {                                                               \
        int64_t elements = ELEMENTS;                                   \
        call;                                                          \
        for (int run = 0; run < 2; run++, elements = 2 * ELEMENTS) {   \
            say(what, name, to, "begin");                              \
            call;                                                      \
            say(what, name, to, "end");                                \
        }                                                              \
    } while (0)

/* What encodes, with the processor's own code if there is any, and what decodes. */
#define TYPE(name, encode, decode)                                                   \
    do {                                                                                         \
        MEASURE("quantize", name, "f32", encode(values, (void *)packed, elements));              \
        MEASURE("decode", name, "f32", dequantize_row_##decode((const void *)packed, out, elements)); \
    } while (0)

int main(void)
{
    uint32_t state = 1;
    for (int i = 0; i < ELEMENTS; i++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 16) / 32768.0f - 1.0f;
        }
        values[i] = values[i + ELEMENTS] = sum * 0.02f;
    }
    TYPE("Q4_0", quantize_row_q4_0, q4_0);
    TYPE("Q4_1", quantize_row_q4_1, q4_1);
    TYPE("Q5_0", quantize_row_q5_0, q5_0);
    TYPE("Q5_1", quantize_row_q5_1, q5_1);
    TYPE("Q8_0", quantize_row_q8_0, q8_0);
    TYPE("Q2_K", quantize_row_q2_K, q2_K);
    TYPE("Q3_K", quantize_row_q3_K, q3_K);
    TYPE("Q4_K", quantize_row_q4_K, q4_K);
    TYPE("Q5_K", quantize_row_q5_K, q5_K);
    TYPE("Q6_K", quantize_row_q6_K, q6_K);
    TYPE("IQ4_NL", quantize_iq4_nl_rows, iq4_nl);
    TYPE("IQ4_XS", quantize_row_iq4_xs, iq4_xs);
    TYPE("TQ1_0", quantize_row_tq1_0, tq1_0);
    TYPE("TQ2_0", quantize_row_tq2_0, tq2_0);
    TYPE("MXFP4", quantize_row_mxfp4, mxfp4);
    return 0;
}
