/* A plug-in in C: rows divided by their length, forward and backward.
 *
 *   cc -O2 -shared -fPIC -I harness/plugin -o l2norm.so ci/examples/plugin/l2norm.c -lm
 *   parity run --plugin ./l2norm.so
 */
#include <math.h>
#include <stdlib.h>

#include "parity_plugin.h"

static float eps_of(const parity_case* problem) {
  return (float)atof(parity_option_or(problem, "eps", "1e-6"));
}

/* The fault "outside" leaves eps outside the root. */
static float reciprocal_length(const float* x, int64_t d_n, float eps, const char* fault) {
  float sum = 0;
  int64_t d;
  for (d = 0; d < d_n; ++d) sum += x[d] * x[d];
  if (strcmp(fault, "P-mine-outside") == 0) return 1 / (sqrtf(sum) + eps);
  return 1 / sqrtf(sum + eps);
}

static const char* forward(const parity_launch* l) {
  const int64_t n_n = parity_extent(l->problem, "N", 0), d_n = parity_extent(l->problem, "D", 0);
  const float eps = eps_of(l->problem);
  const float* x = (const float*)parity_in(l, "x");
  float* y = (float*)parity_out(l, "y");
  int64_t n, d;
  if (!x || !y) return "a tensor is missing";
  for (n = 0; n < n_n; ++n) {
    const float r = reciprocal_length(x + n * d_n, d_n, eps, l->fault);
    for (d = 0; d < d_n; ++d) y[n * d_n + d] = x[n * d_n + d] * r;
  }
  return NULL;
}

static const char* backward(const parity_launch* l) {
  const int64_t n_n = parity_extent(l->problem, "N", 0), d_n = parity_extent(l->problem, "D", 0);
  const float eps = eps_of(l->problem);
  const float *x = (const float*)parity_in(l, "x"), *dy = (const float*)parity_in(l, "cotangents/y");
  float* dx = (float*)parity_out(l, "grads/x");
  int64_t n, d;
  if (!x || !dy || !dx) return "a tensor is missing";
  for (n = 0; n < n_n; ++n) {
    const float *xn = x + n * d_n, *dyn = dy + n * d_n;
    const float r = reciprocal_length(xn, d_n, eps, l->fault);
    float dot = 0;
    for (d = 0; d < d_n; ++d) dot += xn[d] * r * dyn[d];
    for (d = 0; d < d_n; ++d) dx[n * d_n + d] = r * (dyn[d] - xn[d] * r * dot);
  }
  return NULL;
}

static const char* const dtypes[] = {"f32", NULL};
static const parity_fault faults[] = {{"P-mine-outside", "eps outside the root"}};
static const parity_kernel kernels[] = {{.op = "l2norm",
                                         .name = "l2norm.plugin_c",
                                         .what = "rows one by one, in C",
                                         .dtypes = dtypes,
                                         .faults = faults,
                                         .n_faults = 1,
                                         .forward = forward,
                                         .backward = backward}};
static const parity_plugin plugin = {PARITY_PLUGIN_VERSION, sizeof(parity_kernel), "example in C",
                                     kernels, sizeof kernels / sizeof kernels[0]};

const parity_plugin* parity_plugin_kernels(void) { return &plugin; }
