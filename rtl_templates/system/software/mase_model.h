/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware layer of the Verilated model: a system and a memory that answers it. */
#ifndef MASE_MODEL_H
#define MASE_MODEL_H

#include "mase_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the memory does wrong. */
enum model_kind { MODEL_NONE, MODEL_READ_ERROR, MODEL_WRITE_ERROR, MODEL_STUCK };

/* Resets the model; its clock runs in `read`, `write` and `sleep`. Stalls are random, in percent of the cycles. */
void model_open(struct mase_hal *hal, unsigned stalls, int interrupts);

/* Buffers that the model reaches, aligned to 16 bytes. They are the program's: `clean` and `invalidate` copy. */
uint8_t *model_buffer(size_t bytes);

/* From now on. With an error: the answer of the beat, or of the burst, that holds this byte. */
void model_fault(enum model_kind fault, const void *at);

/* Loses the next interrupts. */
void model_lose_interrupts(int lost);

/* Bursts of the bus that broke a rule of AXI4: length, 4 KiB, missing or early WLAST, changed while it waited. */
unsigned model_violations(void);

/* Beats transferred, and the longest burst. */
uint64_t model_beats(void);
unsigned model_longest(void);

#ifdef __cplusplus
}
#endif

#endif
