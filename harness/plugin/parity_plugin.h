/* Kernels of yours, judged by parity, in a shared library that is built without parity: this header
 * is all that it needs, in C99 or C++.
 *
 *   cc -shared -fPIC -o mine.so mine.c -I<where this file is>
 *   parity run --plugin ./mine.so
 *
 * The library exports parity_plugin_kernels(), which returns a table that lives as long as the
 * library. It is loaded in child processes only: once to read the table, and once for every case
 * that a kernel runs. Nothing is kept from one case to the next.
 *
 * A kernel gets dense row-major tensors by the names that `parity show ID` prints. Outputs hold
 * poison, and there are canaries on both sides of every tensor; inputs must stay as they are. A
 * backward gets the inputs and, as further inputs, the cotangents; what the forward computed it
 * computes again. It may throw C++ exceptions. */
#ifndef PARITY_PLUGIN_H
#define PARITY_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <string.h>
#else
#include <cstring>
extern "C" {
#endif

#define PARITY_PLUGIN_VERSION 1u

/* The layout of DLPack 1.x: a parity_dl_tensor* may be cast to DLTensor*. */
typedef struct parity_device {
  int32_t device_type; /* 1: CPU, 2: CUDA */
  int32_t device_id;
} parity_device;

typedef struct parity_data_type {
  uint8_t
      code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 e4m3fn, 12 e5m2, 14 e8m0, 15 e2m3, */
  uint8_t bits;   /* 16 e3m2 (a byte a code), 17 e2m1 (two a byte, the first in the low nibble) */
  uint16_t lanes; /* 1 */
} parity_data_type;

typedef struct parity_dl_tensor {
  void* data;
  parity_device device;
  int32_t ndim;
  parity_data_type dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: dense, row-major, which is what parity hands over */
  uint64_t byte_offset;
} parity_dl_tensor;

typedef struct parity_tensor {
  const char* name;  /* "q", "cotangents/y", "grads/x" */
  const char* dtype; /* "f32", "bf16", "e4m3", ... */
  parity_dl_tensor dl;
} parity_tensor;

typedef struct parity_size {
  const char* name;     /* "T" */
  int64_t extent;       /* of packed sequences: of all of them */
  const int64_t* parts; /* lengths of packed sequences, where they are packed */
  size_t n_parts;
} parity_size;

typedef struct parity_option {
  const char* name;
  const char* value;
} parity_option;

typedef struct parity_case {
  const char* id; /* without the kernel */
  const char* op;
  const char* dtype;
  const char* fill;
  uint64_t seed;
  const parity_size* sizes;
  size_t n_sizes;
  const parity_option* options; /* those that the id names; absent: their defaults */
  size_t n_options;
} parity_case;

typedef struct parity_launch {
  const parity_case* problem;
  const parity_tensor* inputs;
  size_t n_inputs;
  const parity_tensor* outputs; /* in the backward: the gradients */
  size_t n_outputs;
  int threads;       /* results must not depend on it where `invariant` says "threads" */
  void* stream;      /* cudaStream_t of a GPU kernel, else null */
  const char* fault; /* the fault that is switched on; "": none */
} parity_launch;

/* A tensor that the kernel keeps in a narrower format on the way. */
typedef struct parity_rounding {
  const char* where; /* a name that the op's base knows; `parity list` shows those of others */
  const char* to;    /* "bf16" */
  const char* mode;  /* null: to nearest even; "truncate" */
} parity_rounding;

typedef struct parity_fault {
  const char* id;
  const char* what; /* a sentence */
} parity_fault;

typedef struct parity_kernel {
  const char* op;    /* "l2norm" */
  const char* name;  /* unique: "l2norm.mine" */
  const char* what;  /* a sentence */
  const char* needs; /* null or "", "avx2", "avx512"; "sm_90+": tensors lie on the GPU */
  /* The contract: by which arithmetic it is judged. Of a contract that a kernel of this op already
   * has (`parity list`) the name is enough; the five fields after it are then read from there. */
  const char* contract;
  const char* accumulate; /* null: "f32" */
  int64_t chunk;          /* block of a recurrence or reduction; 0: none */
  const parity_rounding* roundings;
  size_t n_roundings;
  int32_t nondeterministic;     /* 0: repeats are equal bit for bit, which is checked */
  const char* const* dtypes;    /* data types of cases that it takes, null at the end */
  const char* const* invariant; /* null, or "threads", "batch", ..., null at the end */
  const parity_fault* faults;   /* for `parity mutate`; may be null */
  size_t n_faults;
  /* Why it does not take this case; null: it does. May be null: it takes all. */
  const char* (*supports)(const parity_case*);
  /* Null where it went well, else what happened. */
  const char* (*forward)(const parity_launch*);
  const char* (*backward)(const parity_launch*); /* null: forward only */
} parity_kernel;

typedef struct parity_plugin {
  uint32_t version;      /* PARITY_PLUGIN_VERSION */
  uint32_t kernel_bytes; /* sizeof(parity_kernel) */
  const char* name;      /* of the library, for people; may be null */
  const parity_kernel* kernels;
  size_t n_kernels;
} parity_plugin;

#if defined(_WIN32)
#define PARITY_PLUGIN_EXPORT __declspec(dllexport)
#else
#define PARITY_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif
PARITY_PLUGIN_EXPORT const parity_plugin* parity_plugin_kernels(void);

/* ---- for kernels ---------------------------------------------------------------------------- */

/* Null where there is none of that name. */
static inline void* parity_find(const parity_tensor* tensors, size_t n, const char* name) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (strcmp(tensors[i].name, name) == 0) return tensors[i].dl.data;
  return NULL;
}
static inline const void* parity_in(const parity_launch* launch, const char* name) {
  return parity_find(launch->inputs, launch->n_inputs, name);
}
static inline void* parity_out(const parity_launch* launch, const char* name) {
  return parity_find(launch->outputs, launch->n_outputs, name);
}
static inline int64_t parity_extent(const parity_case* problem, const char* name,
                                    int64_t otherwise) {
  size_t i;
  for (i = 0; i < problem->n_sizes; ++i)
    if (strcmp(problem->sizes[i].name, name) == 0) return problem->sizes[i].extent;
  return otherwise;
}
static inline const char* parity_option_or(const parity_case* problem, const char* name,
                                           const char* otherwise) {
  size_t i;
  for (i = 0; i < problem->n_options; ++i)
    if (strcmp(problem->options[i].name, name) == 0) return problem->options[i].value;
  return otherwise;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* PARITY_PLUGIN_H */
