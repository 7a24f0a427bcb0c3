// A first call of LibTorch sets up its dispatcher, its matrix library and the graph of gradients
// for 20 ms. Cases run in children that are forked from a process that has loaded this library:
// there it is done once, before they exist.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

namespace parity {
namespace {

const bool warm = [] {
  // With a GPU the first backward starts threads, which no child would have.
  if (at::hasCUDA()) return false;
  at::set_num_threads(1);
  const at::Tensor x = at::ones({2, 16, 16}).requires_grad_(true);
  const at::Tensor y = at::linalg_solve_triangular(x.matmul(x).tril(), x, false);
  const at::Tensor z = (y.softmax(-1).mul(x.sigmoid())).cumsum(-1).exp().to(at::kBFloat16).sum();
  torch::autograd::grad({z}, {x});
  return true;
}();

}  // namespace
}  // namespace parity
